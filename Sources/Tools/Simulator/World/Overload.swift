// Overload: clients that use everything that a broker with little memory allows. Most do not read, some hold open
// requests that never end, and messages are of all sizes.

import Core

extension Workload {
    /// Three of four clients read nothing until the faults stop, whatever room their sockets have.
    func deafen(_ client: any VirtualClient) {
        guard chance.below(4) > 0 else { return }
        client.wire.isStalled = true
        client.wire.capacity = chance.pick([0, 5_000, 200_000])
    }

    func overloadSize() -> Int {
        // A text may be slightly longer than requested.
        let most = plan.limits.payload - 16
        return chance.pick([0, 100, 1000, 1000, most / 64, most / 16, most / 4, most])
    }

    func overload() {
        switch chance.below(16) {
        case 0...4: if subscribers.count(where: { $0.isOpen }) < plan.subscriptions { subscribe() }
        case 5: hold()
        case 6: watch()
        case 7...9: fireAndForget()
        default: publish()
        }
    }

    /// Sends the fragments of a request, except the last one.
    private func hold() {
        guard let client = client() as? RSocketClient else { return }
        let size = chance.pick([overloadSize(), plan.limits.payload])
        let ledger = HeldLedger(client, "unfinished request", referee)
        client.hold(ledger, Swift.max(1000, size))
    }

    /// System topics are not read either.
    private func watch() {
        guard let client = client() as? RSocketClient else { return }
        let ledger = WatchLedger(client, "$SYS.events", referee)
        client.watch(ledger, n: SubscriberLedger.everything)
    }
}
