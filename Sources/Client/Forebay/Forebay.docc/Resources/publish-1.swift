// One message, and the broker's acknowledgement.

import Forebay
import Streams

@main
enum Feed {
    static func main() async throws {
        let client = try await ForebayClient.connect("rsocket://127.0.0.1:7690")
        let topic = client.topic("tutorial")
        try await topic.publish("hello")
        print("the broker has it")
        await client.close()
    }
}

// Prints:
//     the broker has it
