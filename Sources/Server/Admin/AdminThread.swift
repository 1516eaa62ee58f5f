// AdminThread: the admin listener's start and end, as its server has them.

import Core
import EventLoop
import Glibc
import HTTP2

/// None at all, bound, or running. It outlives the shards, so that a drain can be watched.
struct AdminThread: Sendable {
    private var sockets: [Int32] = []
    private(set) var inbox: Inbox<AdminItem>?
    private var thread: NamedThread?

    /// There is none.
    init() {}

    init(binding endpoint: Endpoint?) throws(StartError) {
        guard let endpoint else { return }
        do throws(SystemError) {
            inbox = try Inbox()
            sockets = try Listener.bind(endpoint)
        } catch {
            throw StartError(isAdmin: true, cause: error)
        }
    }

    var addresses: [SocketAddress] { sockets.compactMap { Socket.localAddress($0) } }

    /// - Parameter bound: where the broker's other listeners are.
    mutating func start(
        _ context: LoopContext, _ configuration: Server.Configuration, _ bound: [(face: Face, address: SocketAddress)]
    ) throws(SystemError) {
        guard let inbox else { return }
        let settings = AdminSettings(
            guarding: AdminGuard(hosts: HostPolicy(configuration.hostNames), access: .everyone),
            listeners: bound.map { ($0.face.name, $0.address) } + addresses.map { ("admin", $0) },
            started: Clock.monotonic())
        let sockets = sockets
        thread = try NamedThread.start("forebay-admin") {
            do throws(SystemError) {
                let loop = try AdminLoop(listeners: sockets, inbox: inbox, context: context, settings: settings)
                try loop.run()
            } catch {
                context.log.write(.error, "admin listener failed", [("cause", error.description)])
            }
        }
    }

    /// Ends it, and waits for that. To be called once.
    func stop() {
        inbox?.push(.stop)
        thread?.join()
        for socket in sockets { close(socket) }
    }
}
