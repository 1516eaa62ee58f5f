// RateLimiter: limits how fast users may publish. Channels are slowed: the credit that topics grant them is sent as
// tokens become available. Acknowledged publishes, and openings of channels, wait for tokens and are refused if that
// takes too long. Fire-and-forget publishes are dropped and counted. `RateLimitedPublishers` carries out what is
// decided for waiting publishers.

import Bytes
import Replay

/// Carries out what the rate limiter decides for publishers that waited.
protocol RateLimitedPublishers {
    /// Continues a publish, or the opening of a channel, that has received its tokens.
    func proceed(_ key: StreamKey, _ message: MessageBatch, now: Instant)
    /// Whether the peer must first read earlier answers. If so, the publisher asks again afterwards.
    func hasUnread(_ publisher: Publisher) -> Bool
    /// Sends a channel `count` of the credit that it was granted.
    func grant(_ count: Int, to publisher: Publisher)
    /// Refuses a publish that waited.
    func refuse(_ key: StreamKey, _ refusal: Refusal, _ loss: PublishLoss, now: Instant)
}

final class RateLimiter {
    /// Publishers processed in one payment. The rest follows in the next one, `Limits.paceInterval` later.
    static let payments = 1024
    /// Users checked for removal per second.
    private static let swept = 1024

    private let context: ShardContext
    /// By user; nil for anonymous clients.
    private var byUser = UserRateLimits()
    /// Meters that hold tokens for the current turn.
    private var touched: [UserRateLimit] = []
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
    var count: Int { byUser.count }
    /// Bytes of publishes that wait for tokens.
    var waitingMemory: some Sequence<Int> { byUser.all.lazy.map(\.parked.memory) }

    /// Adopts new limits. The caller then checks the waiting publishers.
    func adopt() { rates = PublishRates(context.limits) }

    /// The user's meter on this shard, if there is one.
    subscript(user: String?) -> UserRateLimit? { byUser[user] }

    /// The user's meter on this shard, created if necessary.
    func rateLimit(of user: String?) -> UserRateLimit {
        if let rateLimit = byUser[user] { return rateLimit }
        let rateLimit = UserRateLimit(
            context.quotas.account(of: user, now: context.moment.monotonic), budget: context.memory)
        byUser.add(rateLimit)
        return rateLimit
    }

    /// Removes some of the unused meters.
    func sweep() { byUser.sweep(RateLimiter.swept) }

    // Single publishes

    /// Takes the tokens for a message, unless other publishes of the user already wait for some.
    func take(_ size: Int, _ rateLimit: UserRateLimit, now: Instant) -> Bool {
        guard !rateLimit.isWaiting else {
            reached(shortage(rateLimit, now: now), by: rateLimit, now: now)
            return false
        }
        if !rateLimit.isTouched { touched.append(rateLimit) }
        guard let limit = rateLimit.take(size, rates, now: now.monotonic) else { return true }
        reached(limit, by: rateLimit, now: now)
        return false
    }

    /// Whether tokens were taken for the current turn.
    var hasTaken: Bool { !touched.isEmpty }

    /// Counts that a user is held back, and occasionally logs it.
    private func reached(_ limit: LimitReached, by rateLimit: UserRateLimit, now: Instant) {
        context.reached(limit)
        guard rateLimit.isDueForLog(now.monotonic) else { return }
        let who: LogField = rateLimit.account.user.map { ("user", $0) } ?? ("anonymous", "yes")
        context.effects.log.append(
            LogRecord(
                level: .info, message: "publishing slowed", fields: [("limit", limit.name), who], isFrequent: true))
    }

    /// Puts back tokens that were taken for this turn and not used.
    @inline(__always)
    func putTokensBack() { if !touched.isEmpty { putBack() } }

    private func putBack() {
        for rateLimit in touched { rateLimit.putBack(rates) }
        touched.removeAll(keepingCapacity: true)
    }

    /// Makes a publish, or the opening of a channel, wait for tokens.
    func wait(_ key: StreamKey, _ message: MessageBatch, _ rateLimit: UserRateLimit, now: Instant) {
        rateLimit.parked.append(
            ParkedPublish(key: key, message: message, deadline: now.monotonic + context.limits.parkTime))
        lookAgain(at: rateLimit)
    }

    // Channels

    /// The credit of a channel that can be sent now. For the rest, the channel is queued.
    func affordable(_ publisher: Publisher, _ wanted: Int, now: Instant) -> Int {
        guard rates.isLimited, let rateLimit = publisher.rateLimit else { return wanted }
        guard publisher.tokenTurn == nil else { return 0 }
        let count = rateLimit.isWaiting ? 0 : rateLimit.pay(wanted, for: publisher, rates, now: now.monotonic)
        if count < wanted {
            publisher.tokenTurn = rateLimit.channels.append(publisher)
            reached(shortage(rateLimit, now: now), by: rateLimit, now: now)
            lookAgain(at: rateLimit)
        }
        return count
    }

    /// The limit that waiting publishers wait for.
    func shortage(_ rateLimit: UserRateLimit, now: Instant) -> LimitReached {
        guard let rate = rates.messages else { return .publishBytes }
        return rateLimit.account.messages.bucket.available(at: now.monotonic, rate) > 0 ? .publishBytes : .publishRate
    }

    /// Charges messages of a channel that have arrived.
    func charge(_ count: Int, _ bytes: Int, to publisher: Publisher, now: Instant) {
        guard rates.isLimited || publisher.prepaid.count > 0, let rateLimit = publisher.rateLimit else { return }
        rateLimit.charge(count, bytes: bytes, to: publisher, rates, now: now.monotonic)
    }

    /// Ends the wait of a publisher that is gone, and refunds its unused prepayment.
    func end(_ publisher: Publisher) {
        guard let rateLimit = publisher.rateLimit else { return }
        if publisher.prepaid.count > 0 { rateLimit.refund(publisher, rates) }
        guard let turn = publisher.tokenTurn else { return }
        publisher.tokenTurn = nil
        rateLimit.channels.withdraw(turn)
    }

    // Time

    private func lookAgain(at rateLimit: UserRateLimit) {
        byUser.enlist(rateLimit)
        let due = Swift.max(rateLimit.due(rates), context.moment.monotonic + Limits.paceInterval)
        nextPayment = Swift.min(nextPayment, due)
    }

    /// Serves publishers that wait for tokens in turn, and refuses those that waited too long, or all if the broker is
    /// draining.
    func payWaiting(_ publishers: some RateLimitedPublishers, now: Instant) {
        nextPayment = .max
        var left = RateLimiter.payments
        for _ in 0..<byUser.waitingCount where left > 0 {
            guard let rateLimit = byUser.nextWaiting() else { break }
            left -= 1
            if context.draining { refuseParked(rateLimit, &left, publishers, now: now) }
            if rateLimit.isChannelsTurn { payChannels(rateLimit, &left, publishers, now: now) }
            payParked(rateLimit, &left, publishers, now: now)
            if !rateLimit.isChannelsTurn || rateLimit.parked.isEmpty {
                payChannels(rateLimit, &left, publishers, now: now)
            }
            rateLimit.isChannelsTurn.toggle()
            giveUp(rateLimit, &left, publishers, now: now)
            if rateLimit.isWaiting { lookAgain(at: rateLimit) }
        }
        if left <= 0 { nextPayment = Swift.min(nextPayment, now.monotonic + Limits.paceInterval) }
        putTokensBack()
    }

    private func payParked(
        _ rateLimit: UserRateLimit, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = rateLimit.parked.first {
            let size = waiting.message.firstSize ?? Prepaid.unknownSize
            if !rateLimit.isTouched { touched.append(rateLimit) }
            guard rateLimit.take(size, rates, now: now.monotonic) == nil else { return }
            left -= 1
            rateLimit.parked.removeFirst()
            publishers.proceed(waiting.key, waiting.message, now: now)
        }
    }

    private func payChannels(
        _ rateLimit: UserRateLimit, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        for _ in 0..<rateLimit.channels.count {
            guard left > 0, let publisher = rateLimit.channels.first else { return }
            left -= 1
            guard !publishers.hasUnread(publisher) else {
                // The channel asks again once its peer has read the answers.
                rateLimit.channels.popFirst()
                publisher.tokenTurn = nil
                continue
            }
            let wanted = Int(clamping: publisher.unsentCredit)
            let share = Swift.max(1, wanted / Swift.max(1, rateLimit.channels.count))
            let count = rateLimit.pay(Swift.min(wanted, share), for: publisher, rates, now: now.monotonic)
            guard count > 0 || wanted == 0 else { return }
            rateLimit.channels.popFirst()
            publisher.tokenTurn = count < wanted ? rateLimit.channels.append(publisher) : nil
            if count > 0 { publishers.grant(count, to: publisher) }
        }
    }

    /// Refuses parked publishes that waited too long.
    private func giveUp(
        _ rateLimit: UserRateLimit, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = rateLimit.parked.first, waiting.deadline <= now.monotonic {
            left -= 1
            let limit = shortage(rateLimit, now: now)
            context.reached(.parkTime)
            let most =
                limit == .publishRate
                ? counted(context.limits.publishRate, "message") : counted(context.limits.publishBytes, "byte")
            rateLimit.parked.removeFirst()
            let refusal = Refusal(
                .limit, "\(rateLimit.account.title) may publish \(most) per second; publish more slowly.",
                retryAfter: 1)
            publishers.refuse(waiting.key, refusal, .rate, now: now)
        }
    }

    private func refuseParked(
        _ rateLimit: UserRateLimit, _ left: inout Int, _ publishers: some RateLimitedPublishers, now: Instant
    ) {
        while left > 0, let waiting = rateLimit.parked.first {
            left -= 1
            rateLimit.parked.removeFirst()
            publishers.refuse(waiting.key, Refusal.draining, .draining, now: now)
        }
    }
}
