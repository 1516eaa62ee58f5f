// A consumer that is able to set the pace.

import Forebay
import Streams

@main
enum Feed {
    static func main() async throws {
        let client = try await ForebayClient.connect("rsocket://127.0.0.1:7690")
        let topic = client.topic("tutorial.pace")
        try await topic.publish("0")
        var messages = topic.messages(replay: .last(1), buffer: 1, overflow: .block, window: 1).makeAsyncIterator()
        print("began with", try await messages.next()?.text ?? "nothing")
        await client.close()
    }
}

// Prints:
//     began with 0
