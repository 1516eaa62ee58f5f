// library-client: a program with the Swift library, for tests that lose its broker.
//
//     library-client subscribe URLS TOPIC   prints SEQUENCE PAYLOAD of each message, until the topic completes
//     library-client publish URLS TOPIC [ID]   publishes the lines of stdin, numbered if there is an ID
//
// Gaps are printed as `gap CAUSE`, and the states of the connection on stderr.

import EventLoop
import Forebay
import Glibc
import Streams

struct Failure: Error {
    var message: String
}

@main
enum LibraryClient {
    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            send("library-client: \(error)", 2)
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        guard arguments.count >= 3 else { throw Failure(message: "wrong usage") }
        var options = ForebayOptions()
        options.shufflesBrokers = false
        let client = try await ForebayClient.connect(arguments[1], options)
        let watch = client.states.sink { state in send("\(state)", 2) }
        let topic = client.topic(arguments[2])
        switch arguments[0] {
        case "subscribe":
            for try await message in topic.messages(replay: .all, window: 64) {
                if let gap = message.gap { send("gap \(gap)", 1) }
                send("\(message.sequence) \(message.text)", 1)
            }
        case "publish":
            let messages = try lines().publisher.map { OutgoingMessage($0) }
            let accepted = try await messages.publish(to: topic, publisher: arguments.dropFirst(3).first).result()
            send("\(accepted)", 1)
        default: throw Failure(message: "wrong usage")
        }
        watch.cancel()
        await client.close()
    }

    /// The lines of stdin, read by a thread of their own.
    private static func lines() throws -> AsyncStream<String> {
        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        let reader = try NamedThread.start("lines") {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
        reader.detach()
        return lines
    }

    /// Writes a line at once, because the test reads along.
    private static func send(_ line: String, _ descriptor: Int32) {
        let text = line + "\n"
        _ = text.withCString { write(descriptor, $0, text.utf8.count) }
    }
}
