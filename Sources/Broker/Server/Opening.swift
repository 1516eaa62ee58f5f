// Opening: what a server checks and opens before it has threads.

import Access
import Core
import EventLoop
import Store

extension Server {
    /// Binds the admin listener and opens the store. If this fails, it closes the listeners.
    static func open(
        _ configuration: Configuration, _ listeners: [Listener]
    ) throws(StartError) -> (admin: AdminThread, store: Store?) {
        var admin = AdminThread()
        do throws(StartError) {
            admin = try AdminThread(binding: configuration.admin, passed: configuration.passed)
            try Server.checkOpen(
                configuration.access, allowsAnonymous: configuration.allowsAnonymous, [], admin: admin.addresses)
            let store = try configuration.store.map { settings throws(StartError) in
                try StoreService.open(settings.options)
            }
            return (admin, store)
        } catch {
            admin.stop()
            Listener.closeAll(listeners)
            throw error
        }
    }

    /// Throws if remote clients would be served although there are no users, unless this is explicitly allowed.
    static func checkOpen(
        _ access: AccessRules, allowsAnonymous: Bool, _ bound: [Bound], admin: [SocketAddress] = []
    ) throws(StartError) {
        guard access.settings.isOpen, !allowsAnonymous else { return }
        for address in admin where !address.isLoopback {
            throw StartError(
                isAdmin: true, isConfiguration: true,
                cause: SystemError(
                    "\(address) would give everyone on the network full control",
                    cause: "there are no users"))
        }
        for (wireProtocol, _, address) in bound where !address.isLoopback {
            throw StartError(
                listener: wireProtocol, isConfiguration: true,
                cause: SystemError("\(address) would serve everyone on the network", cause: "there are no users"))
        }
    }

    /// Makes the same check as the other `checkOpen` before anything is bound, for -t. Host names that do not resolve
    /// are not reported until binding.
    static func checkOpen(_ configuration: Configuration) throws(StartError) {
        func addresses(_ endpoint: Endpoint?) -> [SocketAddress] { (try? endpoint?.resolve()) ?? [] }
        let bound = WireProtocol.all.flatMap { wireProtocol in
            addresses(configuration[wireProtocol]).map { (wireProtocol, configuration.isSecure(wireProtocol.name), $0) }
        }
        try checkOpen(
            configuration.access, allowsAnonymous: configuration.allowsAnonymous, bound,
            admin: addresses(configuration.admin))
    }
}
