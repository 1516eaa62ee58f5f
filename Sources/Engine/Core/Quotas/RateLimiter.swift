// RateLimiter: limits how fast users may publish. Channels are slowed: the credit that topics grant them is sent as
// tokens become available. Acknowledged publishes, and openings of channels, wait for tokens and are refused if that
// takes too long. Fire-and-forget publishes are dropped and counted. `RateLimitedPublishers` carries out what is
// decided for waiting publishers.

import Bytes
import Replay

/// Carries out what the rate limiter decides for publishers that waited.
protocol RateLimitedPublishers {
    /// A publish, or the opening of a channel, has received its tokens.
    func proceed(_ key: StreamKey, _ message: MessageBatch, now: Instant)
    /// Whether the peer must first read earlier answers. If so, the publisher asks again afterwards.
    func hasUnread(_ publisher: Publisher) -> Bool
    /// The channel may be sent `count` of the credit that it was granted.
    func grant(_ count: Int, to publisher: Publisher)
    /// A publish that waited is refused.
    func refuse(_ key: StreamKey, _ refusal: Refusal, _ loss: PublishLoss, now: Instant)
}

final class RateLimiter {
    /// Publishers processed in one payment. The rest follows in the next one, `Limits.paceInterval` later.
    static let payments = 1024
    /// Users checked for removal per second.
    private static let swept = 1024

    private let context: ShardContext
    /// By user; nil for anonymous clients.
    private var meters = MeterTable()
    /// Meters that hold tokens for the current turn.
    private var touched: [Meter] = []
    /// How fast each user may publish.
    private(set) var rates: PublishRates
    /// When waiting publishers are checked next, on the monotonic clock.
    private(set) var nextPayment = UInt64.max

    init(context: ShardContext) {
        self.context = context
        rates = PublishRates(context.limits)
    }

    /// Whether there is any limit.
    var isLimited: Bool { rates.isLimited }
    var count: Int { meters.count }
    /// Bytes of publishes that wait for tokens.
    var waitingMemory: some Sequence<Int> { meters.all.lazy.map(\.parked.memory) }

    /// Adopts new limits. The caller then checks the waiting publishers.
    func adopt() { rates = PublishRates(context.limits) }

    /// The user's meter on this shard, if there is one.
    subscript(user: String?) -> Meter? { meters[user] }

    /// The user's meter on this shard, created if necessary.
    func meter(of user: String?) -> Meter {
        if let meter = meters[user] { return meter }
        let meter = Meter(context.quotas.account(of: user, now: context.moment.monotonic), budget: context.memory)
        meters.add(meter)
        return meter
    }

    /// Removes some of the unused meters.
    func sweep() { meters.sweep(RateLimiter.swept) }

    // Single publishes

    /// Takes the tokens for a message, unless other publishes of the user already wait for some.
    func take(_ size: Int, _ meter: Meter, now: Instant) -> Bool {
        guard !meter.isWaiting else {
            reached(shortage(meter, now: now), by: meter, now: now)
            return false
        }
        if !meter.isTouched { touched.append(meter) }
        guard let limit = meter.take(size, rates, now: now.monotonic) else { return true }
        reached(limit, by: meter, now: now)
        return false
    }

    /// Tokens were taken for the current turn.
    var hasTaken: Bool { !touched.isEmpty }

    /// Counts that a user is held back, and occasionally logs it.
    private func reached(_ limit: LimitReached, by meter: Meter, now: Instant) {
        context.reached(limit)
        guard meter.isDueForLog(now.monotonic) else { return }
        let who: LogField = meter.account.user.map { ("user", $0) } ?? ("anonymous", "yes")
        context.effects.log.append(
            LogRecord(
                level: .info, message: "publishing slowed", fields: [("limit", limit.name), who], isFrequent: true))
    }

    /// Puts back tokens that were taken for this turn and not used.
    @inline(__always)
    func putTokensBack() { if !touched.isEmpty { putBack() } }

    private func putBack() {
        for meter in touched { meter.putBack(rates) }
        touched.removeAll(keepingCapacity: true)
    }

    /// Makes a publish, or the opening of a channel, wait for tokens.
    func wait(_ key: StreamKey, _ message: MessageBatch, _ meter: Meter, now: Instant) {
        meter.parked.append(
            ParkedPublish(key: key, message: message, deadline: now.monotonic + context.limits.parkTime))
        lookAgain(at: meter)
    }

    // Channels

    /// The credit of a channel that can be sent now. For the rest, the channel is queued.
    func affordable(_ publisher: Publisher, _ wanted: Int, now: Instant) -> Int {
        guard rates.isLimited, let meter = publisher.meter else { return wanted }
        guard publisher.tokenTurn == nil else { return 0 }
        let count = meter.isWaiting ? 0 : meter.pay(wanted, for: publisher, rates, now: now.monotonic)
        if count < wanted {
            publisher.tokenTurn = meter.channels.append(publisher)
            reached(shortage(meter, now: now), by: meter, now: now)
            lookAgain(at: meter)
        }
        return count
    }

    /// The limit that waiting publishers wait for.
    func shortage(_ meter: Meter, now: Instant) -> LimitReached {
        guard let rate = rates.messages else { return .publishBytes }
        return meter.account.messages.bucket.available(at: now.monotonic, rate) > 0 ? .publishBytes : .publishRate
    }

    /// Messages of a channel have arrived.
    func charge(_ count: Int, _ bytes: Int, to publisher: Publisher, now: Instant) {
        guard rates.isLimited || publisher.prepaid.count > 0, let meter = publisher.meter else { return }
        meter.charge(count, bytes: bytes, to: publisher, rates, now: now.monotonic)
    }

    /// A publisher is gone: it stops waiting, and its unused prepayment is refunded.
    func end(_ publisher: Publisher) {
        guard let meter = publisher.meter else { return }
        if publisher.prepaid.count > 0 { meter.refund(publisher, rates) }
        guard let turn = publisher.tokenTurn else { return }
        publisher.tokenTurn = nil
        meter.channels.withdraw(turn)
    }

    // Time

    private func lookAgain(at meter: Meter) {
        meters.enlist(meter)
        let due = Swift.max(meter.due(rates), context.moment.monotonic + Limits.paceInterval)
        nextPayment = Swift.min(nextPayment, due)
    }

    /// Serves publishers that wait for tokens in turn, and refuses those that waited too long, or all if the broker is
    /// draining.
    func payWaiting(_ publishers: some RateLimitedPublishers, now: Instant) {
        nextPayment = .max
        var left = RateLimiter.payments
        for _ in 0..<meters.waitingCount where left > 0 {
            guard let meter = meters.nextWaiting() else { break }
            left -= 1
            if context.draining { refuseParked(meter, &left, publishers, now: now) }
            if meter.isChannelsTurn { payChannels(meter, &left, publishers, now: now) }
            payParked(meter, &left, publishers, now: now)
            if !meter.isChannelsTurn || meter.parked.isEmpty { payChannels(meter, &left, publishers, now: now) }
            meter.isChannelsTurn.toggle()
            giveUp(meter, &left, publishers, now: now)
            if meter.isWaiting { lookAgain(at: meter) }
        }
        if left <= 0 { nextPayment = Swift.min(nextPayment, now.monotonic + Limits.paceInterval) }
        putTokensBack()
    }

    private func payParked(
        _ meter: Meter, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = meter.parked.first {
            let size = waiting.message.firstSize ?? Prepaid.unknownSize
            if !meter.isTouched { touched.append(meter) }
            guard meter.take(size, rates, now: now.monotonic) == nil else { return }
            left -= 1
            meter.parked.removeFirst()
            publishers.proceed(waiting.key, waiting.message, now: now)
        }
    }

    private func payChannels(
        _ meter: Meter, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        for _ in 0..<meter.channels.count {
            guard left > 0, let publisher = meter.channels.first else { return }
            left -= 1
            guard !publishers.hasUnread(publisher) else {
                // It asks again after reading its answers.
                meter.channels.popFirst()
                publisher.tokenTurn = nil
                continue
            }
            let wanted = Int(clamping: publisher.untoldCredit)
            let share = Swift.max(1, wanted / Swift.max(1, meter.channels.count))
            let count = meter.pay(Swift.min(wanted, share), for: publisher, rates, now: now.monotonic)
            guard count > 0 || wanted == 0 else { return }
            meter.channels.popFirst()
            publisher.tokenTurn = count < wanted ? meter.channels.append(publisher) : nil
            if count > 0 { publishers.grant(count, to: publisher) }
        }
    }

    /// Refuses parked publishes that waited too long.
    private func giveUp(
        _ meter: Meter, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = meter.parked.first, waiting.deadline <= now.monotonic {
            left -= 1
            let limit = shortage(meter, now: now)
            context.reached(.parkTime)
            let most =
                limit == .publishRate
                ? counted(context.limits.publishRate, "message") : counted(context.limits.publishBytes, "byte")
            meter.parked.removeFirst()
            let refusal = Refusal(
                .limit, "\(meter.account.title) may publish \(most) per second; publish more slowly.",
                retryAfter: 1)
            publishers.refuse(waiting.key, refusal, .rate, now: now)
        }
    }

    private func refuseParked(
        _ meter: Meter, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = meter.parked.first {
            left -= 1
            meter.parked.removeFirst()
            publishers.refuse(waiting.key, Refusal.draining, .draining, now: now)
        }
    }
}
