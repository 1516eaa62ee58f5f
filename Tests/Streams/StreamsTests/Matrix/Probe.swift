// Probe: the subscriber of an operator under test. Records what it receives, and each breach of the contract.

import Streams

/// Events are strings, so that operators of any output can be in one table: values by their descriptions (without
/// spaces after commas), `|` for finished, `X` for a failure.
final class Probe: @unchecked Sendable {
    private(set) var events: [String] = []
    /// Breaches of the contract of `Publisher`.
    private(set) var breaches: [String] = []
    private(set) var subscription: (any Subscription)?
    /// Requested and not received.
    private(set) var outstanding = Subscribers.Demand.none
    private(set) var isCancelled = false
    /// Called with each value that was recorded; returns further demand.
    var onValue: (Probe) -> Subscribers.Demand = { _ in .none }
    /// Called when the probe has its subscription.
    var onSubscription: (Probe) -> Void = { _ in }
    private var hasEnded = false
    private var isReceiving = false

    var text: String { events.joined(separator: " ") }
    var valueCount: Int { events.count - (hasEnded ? 1 : 0) }

    func request(_ demand: Subscribers.Demand) {
        outstanding += demand
        subscription?.request(demand)
    }

    func cancel() {
        isCancelled = true
        subscription?.cancel()
    }

    func letGoOfSubscription() { subscription = nil }

    fileprivate func receive(subscription: any Subscription) {
        if self.subscription == nil, !hasEnded, !isCancelled {
            self.subscription = subscription
            onSubscription(self)
        } else {
            subscription.cancel()
        }
    }

    fileprivate func receive(_ value: some Any) -> Subscribers.Demand {
        let text = "\(value)".replacing(", ", with: ",")
        enter(text)
        defer { isReceiving = false }
        if outstanding == .none { breaches.append("\(text) without demand") }
        outstanding -= 1
        events.append(text)
        let more = onValue(self)
        outstanding += more
        return more
    }

    fileprivate func receive(end: String) {
        enter(end)
        defer { isReceiving = false }
        events.append(end)
        hasEnded = true
    }

    private func enter(_ event: String) {
        if subscription == nil { breaches.append("\(event) before the subscription") }
        if hasEnded { breaches.append("\(event) after the end") }
        if isCancelled { breaches.append("\(event) after cancel") }
        if isReceiving { breaches.append("\(event) from within another event") }
        isReceiving = true
    }
}

/// The probe as a subscriber with specific types.
private struct ProbeSubscriber<Input, Failure: Error>: Subscriber {
    let probe: Probe
    let combineIdentifier = CombineIdentifier()

    func receive(subscription: any Subscription) { probe.receive(subscription: subscription) }
    func receive(_ input: Input) -> Subscribers.Demand { probe.receive(input) }
    func receive(completion: Subscribers.Completion<Failure>) {
        switch completion {
        case .finished: probe.receive(end: "|")
        case .failure: probe.receive(end: "X")
        }
    }
}

extension Publisher {
    func attach(_ probe: Probe) { subscribe(ProbeSubscriber<Output, Failure>(probe: probe)) }
}
