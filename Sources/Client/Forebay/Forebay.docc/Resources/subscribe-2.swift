// A topic's messages, one for each that is requested.

import Forebay
import Streams

@main
enum Feed {
    static func main() async throws {
        let client = try await ForebayClient.connect("rsocket://127.0.0.1:7690")
        let topic = client.topic("tutorial")
        let (texts, continuation) = AsyncStream.makeStream(of: String.self)
        let some = topic.messages(replay: .last(3)).resumableSink(
            receiveCompletion: { print($0) },
            receiveValue: { continuation.yield($0.text) })
        var arrived = texts.makeAsyncIterator()
        some.resume(.max(1))
        print("got", await arrived.next() ?? "nothing")
        print("and now one more")
        some.resume(.max(1))
        print("got", await arrived.next() ?? "nothing")
        some.cancel()
        await client.close()
    }
}

// Prints:
//     got 998
//     and now one more
//     got 999
