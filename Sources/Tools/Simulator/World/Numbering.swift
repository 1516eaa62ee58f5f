// Numbering: publishers that number their messages and send them again at will, also ahead of the one that is next.

import Core

extension Workload {
    func publishNumbered() {
        guard let client = client() as? RSocketClient else { return }
        let publisher = numberedPublisher()
        for _ in 0..<chance.size(upTo: 4) {
            let next = publisher.messages.count + 1
            // The first number is sent only once: the topic may have begun again, and would take it again.
            let first = Swift.max(2, publisher.confirmed + (chance.isOne(in: 3) ? -2 : 1))
            let number = next == 1 ? 1 : Swift.min(next, first + chance.below(4))
            if number == next { publisher.add(message(.acknowledged, publisher.topic, isNumbered: true)) }
            let ledger = NumberedLedger(client, publisher, number, referee)
            singles.append(ledger)
            client.publish(ledger.route, ledger.message, on: ledger.stream)
        }
    }

    /// One that is in use, or a new one.
    private func numberedPublisher() -> NumberedPublisher {
        let open = numbered.filter { !$0.isOver }
        if open.count >= 3 || !open.isEmpty && chance.below(4) > 0 { return chance.pick(open) }
        let isLasting = plan.limits.publisherTime > 1000 * Limits.second && !plan.has(.times)
        numbered.append(
            NumberedPublisher(
                chance.pick(plan.topics), "p\(numbered.count)", isLasting: isLasting, journal, referee))
        return numbered[numbered.count - 1]
    }
}
