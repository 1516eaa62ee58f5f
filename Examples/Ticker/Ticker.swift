// Ticker: publishes the time ten times a second. It pauses while the topic has no room because a subscription with
// `.block` is full.
//
//     swift run ticker [URL] [TOPIC]

import Dispatch
import Forebay
import Foundation
import Streams

@main
enum Ticker {
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
        print("publishing to \(topic.name)")
        let count = try await Publishers.timer(interval: .milliseconds(100))
            .map { Array("tick at \($0.uptimeNanoseconds / 1_000_000) ms".utf8) }
            .publish(to: topic).result()
        print("\(count) ticks were accepted")
    }
}
