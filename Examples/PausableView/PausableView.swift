// PausableView: shows a live feed until you press Return, and continues when you press it again. While paused it
// requests nothing; when it continues it shows new messages, not those it missed.
//
//     swift run pausable-view [URL] [TOPIC]

import Forebay
import Foundation
import Streams
import Synchronization

@main
enum PausableView {
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
        let isRunning = Atomic<Bool>(true)
        let view = topic.messages(overflow: .latest).pausableSink(
            receiveCompletion: { print("the feed ended: \($0)") },
            receiveValue: { message in
                print("\(message.sequence): \(message.text)")
                return isRunning.load(ordering: .relaxed)
            })
        while readLine() != nil {
            let runs = !isRunning.load(ordering: .relaxed)
            isRunning.store(runs, ordering: .relaxed)
            if runs { view.resume() } else { print("paused: press return to go on") }
        }
        view.cancel()
        await client.close()
    }
}
