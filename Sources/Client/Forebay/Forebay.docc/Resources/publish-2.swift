// A publisher whose values the broker requests.

import Forebay
import Streams

@main
enum Feed {
    static func main() async throws {
        let client = try await ForebayClient.connect("rsocket://127.0.0.1:7690")
        let topic = client.topic("tutorial")
        let numbers = (1...1000).publisher.map { Array(String($0).utf8) }
        let publication = numbers.publish(to: topic)
        print(try await publication.result(), "were accepted")
        await client.close()
    }
}

// Prints:
//     1000 were accepted
