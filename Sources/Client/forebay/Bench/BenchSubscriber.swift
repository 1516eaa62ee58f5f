// BenchSubscriber: one subscription of `bench`, on its own connection. A subscriber grants credit and checks what
// arrives.

import Client
import EventLoop

final class BenchSubscriber {
    /// Why the subscription ended, if it did.
    private(set) var failure: ClientError?
    private var connection: BenchLink
    private let settings: BenchSettings
    private var stream: StreamID?
    private var creditWindow: CreditWindow
    private var audit: BenchAudit

    init(_ settings: BenchSettings, _ connection: consuming BenchLink) {
        self.settings = settings
        self.connection = connection
        creditWindow = CreditWindow(batch: settings.request)
        audit = BenchAudit(settings)
    }

    /// Whether no message from before mark `round` can still arrive.
    func hasSeen(round: UInt64) -> Bool { audit.round >= round || failure != nil }

    func subscribe(_ poller: inout Poller) throws {
        stream = try connection.link.connection.subscribe(
            settings.topic, settings.subscription, n: creditWindow.first())
        try connection.flush(&poller)
    }

    /// Reads once, handles what arrived, and requests more; called when the socket is ready.
    func serve(
        quantum: Int, _ schedule: BenchSchedule?, _ deliveries: inout BenchDeliveries, _ poller: inout Poller
    ) throws {
        let count = try connection.link.read(atMost: quantum, now: Clock.monotonic())
        let now = Clock.monotonic()
        var used: UInt64 = 0
        let before = deliveries.messages
        while let event = try connection.link.next() {
            switch event {
            case .message(_, let message):
                used += 1
                if let header = audit.take(message.data, &deliveries), let schedule {
                    let due = schedule.due(Int(header.publisher), header.number)
                    deliveries.latency.record(now > due ? now - due : 0)
                }
            case .completed:
                throw ClientError(.rejected, "The topic '\(settings.topic)' has completed; it takes no more messages.")
            case .failed(_, let error):
                // Under the policy `fail`, an overflow is expected to end the subscription.
                guard settings.overflow == .fail, error.word == .overflow else { throw error }
                failure = error
            case .closing(let why): throw ClientError(.connectionError, why)
            case .opened, .granted, .declined, .pong, .acknowledged, .topicEnded: break
            }
        }
        if count > 0, deliveries.messages > before {
            deliveries.reads += 1
            deliveries.last = now
        }
        let n = creditWindow.use(used)
        if n > 0, let stream { connection.link.connection.requestN(stream, n) }
        try connection.flush(&poller)
    }

    /// Counts the messages of each publisher that never arrived. Call once, at the end.
    func account(_ published: [UInt64], _ deliveries: inout BenchDeliveries) {
        audit.account(published, &deliveries)
    }

    /// Sends a KEEPALIVE if one is due, and gives up if the broker is silent.
    func keepAlive(_ now: UInt64, _ poller: inout Poller) throws {
        try connection.link.connection.fire(now: now)
        try connection.flush(&poller)
    }
}
