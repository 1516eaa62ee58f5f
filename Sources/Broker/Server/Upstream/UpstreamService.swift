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

    /// Tries to use JetStream on one of the servers. Returns why that is not possible; nil if it is.
    static func check(_ configuration: UpstreamConfiguration) -> String? {
        do throws(SystemError) {
            let log = try Log(level: .error, format: .text)
            defer { log.close() }
            let loop = try UpstreamLoop(configuration, inbox: Inbox(), shards: [], admin: nil, log: log)
            // A server that does not answer takes this long.
            let servers = Swift.min(configuration.options.servers.all.count, 10)
            let time = UInt64(1 + servers) * UpstreamLoop.connectTime
            let status = try loop.connect(until: Clock.monotonic() + time)
            if status.isConnected { return nil }
            return status.cause.isEmpty ? "no server has answered within \(time / Limits.second) s" : status.cause
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
