// SlowConsumer: takes one message a second, however many arrive. The broker keeps the latest ten for it. Messages that
// it misses are reported to it, and do not affect other clients.
//
//     swift run slow-consumer [URL] [TOPIC]

import Forebay
import Foundation

@main
enum SlowConsumer {
    static func main() async {
        do {
            try await run()
        } catch {
            FileHandle.standardError.write(Data("\(error.localizedDescription)\n".utf8))
            exit((error as? ForebayError)?.code == .notConnected ? 3 : 1)
        }
    }

    private static func run() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        let client = try await ForebayClient.connect(arguments.first ?? "rsocket://127.0.0.1:7690")
        let topic = client.topic(arguments.dropFirst().first ?? "ticks")
        for try await message in topic.messages(buffer: 10, overflow: .dropOldest, window: 1) {
            if let gap = message.gap {
                print("  (missed \(gap.lost.map(String.init) ?? "some"))")
            }
            print("\(message.sequence): \(message.text)")
            try await Task.sleep(for: .seconds(1))
        }
        print("the topic is completed")
    }
}
