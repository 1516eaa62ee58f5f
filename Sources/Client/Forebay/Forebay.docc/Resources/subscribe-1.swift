// A topic's messages in a loop, never more than two in advance.

import Forebay
import Streams

@main
enum Feed {
    static func main() async throws {
        let client = try await ForebayClient.connect("rsocket://127.0.0.1:7690")
        let topic = client.topic("tutorial")
        for try await message in topic.messages(replay: .last(3), window: 2) {
            print("got", message.text)
            if message.text == "1000" { break }
        }
        await client.close()
    }
}

// Prints:
//     got 998
//     got 999
//     got 1000
