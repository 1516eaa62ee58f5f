// UpstreamService: starts and stops the thread that connects the broker to NATS.

import Core
import EventLoop
import TLS
import Upstream

final class UpstreamService: Sendable {
    private let inbox: Inbox<UpstreamItem>
    private let thread: NamedThread

    init(_ options: UpstreamOptions, shards: [Inbox<InboxItem>], log: Log) throws(SystemError) {
        let tls: TLSContext
        do throws(TLSError) {
            // Verifies servers by the authorities that the system trusts.
            tls = try TLSContext(TLSClientSettings())
        } catch {
            throw SystemError("cannot use TLS for NATS", cause: error.description)
        }
        let inbox = try Inbox<UpstreamItem>()
        self.inbox = inbox
        thread = try NamedThread.start("forebay-nats") {
            do throws(SystemError) {
                try UpstreamLoop(options, tls: tls, inbox: inbox, shards: shards, log: log).run()
            } catch {
                log.write(.error, "upstream failed", [("cause", error.description)])
            }
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
