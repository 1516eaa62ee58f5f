// AdminThread: starts and stops the admin listener for the server.

import Core
import EventLoop
import Glibc
import HTTP2

/// The admin listener: absent, bound or running. It outlives the shards, so that a drain can be observed.
struct AdminThread: Sendable {
    /// The listener's name in the log.
    static let name = "admin"

    private var sockets: [Int32] = []
    private(set) var inbox: Inbox<AdminItem>?
    private var thread: NamedThread?

    /// No admin listener.
    init() {}

    /// - Parameter passed: passed sockets; those for this listener replace `endpoint`.
    init(binding endpoint: Endpoint?, passed: PassedSockets = PassedSockets()) throws(StartError) {
        sockets = passed.entries.filter { $0.name == AdminThread.name }.map(\.socket)
        guard endpoint != nil || !sockets.isEmpty else { return }
        do throws(SystemError) {
            inbox = try Inbox()
            if sockets.isEmpty, let endpoint { sockets = try Listener.bind(endpoint) }
        } catch {
            throw StartError(isAdmin: true, cause: error)
        }
    }

    var addresses: [SocketAddress] { sockets.compactMap { Socket.localAddress($0) } }

    /// - Parameter bound: the addresses of the broker's other listeners.
    mutating func start(
        _ context: LoopContext, _ configuration: Server.Configuration, _ bound: [Server.Bound]
    ) throws(SystemError) {
        guard let inbox else { return }
        let settings = AdminSettings(
            guarding: AdminGuard(hosts: HostPolicy(configuration.hostNames)),
            listeners: bound.map {
                BoundListener(name: $0.wireProtocol.name, address: $0.address, isSecure: $0.isSecure)
            }
                + addresses.map {
                    BoundListener(
                        name: AdminThread.name, address: $0, isSecure: configuration.isSecure(AdminThread.name))
                },
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

    /// Stops the thread and waits for its end. Must be called once.
    func stop() {
        inbox?.push(.stop)
        thread?.join()
        for socket in sockets { close(socket) }
    }
}
