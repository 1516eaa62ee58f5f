// UpstreamService: starts and stops the thread that connects the broker to NATS.

import Core
import EventLoop
import Upstream

final class UpstreamService: Sendable {
    private let inbox: Inbox<UpstreamItem>
    private let thread: NamedThread

    init(
        _ configuration: UpstreamConfiguration, shards: [Inbox<InboxItem>], admin: Inbox<AdminItem>?, log: Log
    ) throws(SystemError) {
        let inbox = try Inbox<UpstreamItem>()
        self.inbox = inbox
        thread = try NamedThread.start("forebay-nats") {
            do throws(SystemError) {
                try UpstreamLoop(configuration, inbox: inbox, shards: shards, admin: admin, log: log).run()
            } catch {
                log.write(.error, "upstream failed", [("cause", error.description)])
            }
        }
    }

    /// Nanoseconds that `check` waits for a connection.
    private static let checkTime: UInt64 = 3_000_000_000

    /// Tries to connect to NATS. Returns why that is not possible; nil if it is.
    static func check(_ configuration: UpstreamConfiguration) -> String? {
        do throws(SystemError) {
            let log = try Log(level: .error, format: .text)
            defer { log.close() }
            let loop = try UpstreamLoop(configuration, inbox: Inbox(), shards: [], admin: nil, log: log)
            let status = try loop.connect(until: Clock.monotonic() + checkTime)
            if status.isConnected { return nil }
            return status.cause.isEmpty ? "no server has answered within \(checkTime / Limits.second) s" : status.cause
        } catch {
            return error.description
        }
    }

    func submit(_ requests: [UpstreamRequest], from shard: Int) { inbox.push(.requests(requests, from: shard)) }

    /// A shard has handled reports of `size` bytes.
    func processed(_ size: Int) { inbox.push(.processed(size)) }

    func stop() {
        inbox.push(.stop)
        thread.join()
    }
}
