// Pipeline: two processes and a broker between them. The producer makes a number only when the consumer at the other
// end has room for it: pause the consumer with Ctrl-Z, and the producer pauses.
//
//     swift run pipeline consume 10 [URL]    ten numbers a second
//     swift run pipeline produce [URL]       as many as requested
//
// Start the consumer first: the topic has room for what its subscription can hold.

import Forebay
import Foundation
import Streams

@main
enum Pipeline {
    static func main() async {
        do {
            try await run()
        } catch {
            FileHandle.standardError.write(Data("\(error.localizedDescription)\n".utf8))
            exit((error as? ForebayError)?.code == .notConnected ? 3 : 1)
        }
    }

    private static func run() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        switch arguments.popFirst() {
        case "produce": try await produce(try await connect(arguments.first))
        case "consume":
            guard let pace = arguments.popFirst().flatMap({ Int($0) }), pace > 0 else { fallthrough }
            try await consume(try await connect(arguments.first), pace)
        default: print("usage: pipeline produce [URL] | pipeline consume NUMBERS_A_SECOND [URL]")
        }
    }

    private static func connect(_ url: String?) async throws -> Topic {
        try await ForebayClient.connect(url ?? "rsocket://127.0.0.1:7690").topic("pipeline")
    }

    private static func produce(_ topic: Topic) async throws {
        let numbers = (1...Int.max).publisher.map { number in
            print("made \(number)")
            return Array(String(number).utf8)
        }
        let count = try await numbers.publish(to: topic, ending: .topic).result()
        print("\(count) numbers were accepted")
    }

    private static func consume(_ topic: Topic, _ pace: Int) async throws {
        var messages = topic.messages(buffer: 1, overflow: .block, window: pace).makeAsyncIterator()
        while true {
            for _ in 0..<pace {
                guard let message = try await messages.next() else { return }
                print("got \(message.text)")
            }
            try await Task.sleep(for: .seconds(1))
        }
    }
}
