// Pacing: what becomes of publishes that a user's buckets do not allow now. Channels are slowed: the credit that topics
// grant them is told as tokens come. Acknowledged publishes, and the first message of a channel, are parked, and
// refused when that takes too long. Fire publishes are dropped and counted.

import Bytes
import Replay

extension Shard {
    // Users

    /// Where a user's publishing is counted on this shard.
    func meter(of user: String?) -> Meter {
        if let meter = meters[user] { return meter }
        let meter = Meter(quotas.account(of: user, now: moment.monotonic), budget: memory)
        meters.add(meter)
        return meter
    }

    /// Counts a connection for the user that it turned out to be. Over HTTP, where each request can have another one,
    /// it counts for that of the latest request, and for each who has one under way.
    func enroll(_ connection: Connection, _ principal: Principal) throws(Refusal) {
        let former = connection.meter
        if let former, former.account.user == principal.user { return }
        let meter = meter(of: principal.user)
        let http = connection.http
        let isCounted = http?.speaks(for: meter.account) == true
        guard isCounted || meter.account.connections.take(limit: limits.connectionsPerUser) else {
            throw refusal(
                at: .connectionsPerUser,
                "\(meter.account.title) has \(counted(limits.connectionsPerUser, "connection")), the most allowed; "
                    + "close some.")
        }
        connection.meter = meter
        if let former, http?.speaks(for: former.account) != true { former.account.connections.give() }
    }

    /// Counts a connection no more, for anybody.
    func disenroll(_ connection: Connection) {
        let latest = connection.meter
        latest?.account.connections.give()
        connection.meter = nil
        connection.http?.endSpeaking { account in
            if account !== latest?.account { account.connections.give() }
        }
    }

    /// Who publishes on a stream of a connection.
    func meter(_ connection: Connection, _ stream: UInt32) -> Meter? {
        guard let http = connection.http else { return connection.meter }
        return http.exchange(of: stream)?.meter
    }

    // Single publishes

    /// Whether a fire publish is allowed now.
    func allowFire(_ connection: Connection, _ size: Int, now: Instant) -> Bool {
        guard rates.isLimited, let meter = connection.meter else { return true }
        return take(size, meter, now: now)
    }

    /// Takes what a message costs, unless others of the user wait for tokens already.
    func take(_ size: Int, _ meter: Meter, now: Instant) -> Bool {
        guard !meter.isWaiting else {
            reached(shortage(meter, now: now))
            return false
        }
        if !meter.isTouched { touchedMeters.append(meter) }
        guard let limit = meter.take(size, rates, now: now.monotonic) else { return true }
        reached(limit)
        return false
    }

    /// Puts back what was taken for this turn and not used.
    func putTokensBack() {
        for meter in touchedMeters { meter.putBack(rates) }
        touchedMeters.removeAll(keepingCapacity: true)
    }

    /// Has an acknowledged publish, or the opening of a channel, wait for tokens.
    func park(_ publisher: Publisher, _ request: PublishRequest, _ meter: Meter, now: Instant) {
        var pending = request
        pending.message = MessageBatch()
        publisher.pending = pending
        meter.parked.append(
            ParkedPublish(
                key: key(publisher), message: request.message, deadline: now.monotonic + limits.parkTime))
        lookAgain(at: meter)
    }

    /// A channel's first message has come before its opening could go on.
    func takeEarly(
        _ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) {
        let size = payload.count + (metadata?.count ?? 0)
        do throws(Refusal) {
            try checkParked(size, of: publisher.connection)
            if let refusal = parkRefusal(of: publisher.name) { throw refusal }
        } catch {
            refusedPublish(error, of: publisher.name)
            return revoke(publisher, error, now: now)
        }
        guard publisher.early.count == 0, publisher.parkedBytes == 0 else {
            let sent = "The channel sent a message beyond its credit; wait for more credit before sending on."
            return revoke(publisher, Refusal(.beyondCredit, sent), now: now)
        }
        publisher.early.append(metadata: metadata, payload: payload)
        memory.addPending(publisher.early.bytes.count)
        publisher.parkedBytes += size
        publisher.connection.parkedBytes += size
    }

    func dropEarly(_ publisher: Publisher) {
        memory.addPending(-publisher.early.bytes.count)
        publisher.early.removeAll()
    }

    /// A publisher that waits for tokens ends. Returns whether its topic still has to hear of that.
    func endedPending(_ publisher: Publisher, _ end: PublisherEnd, now: Instant) -> Bool {
        guard var request = publisher.pending else { return true }
        if case .completed = end {
            publisher.pending?.complete = true
            return false
        }
        publisher.pending = nil
        publisher.meter?.parked.withdraw(key(publisher))
        dropEarly(publisher)
        // Its end is the topic's all the same.
        guard request.options.completesTopic || request.options.lossFailsTopic else { return false }
        request.message = MessageBatch()
        submit(publisher, request, now: now)
        return true
    }

    // Channels

    /// Credit of a channel that may be told now; for the rest it gets in line.
    func affordable(_ publisher: Publisher, _ wanted: Int, now: Instant) -> Int {
        guard rates.isLimited, let meter = publisher.meter else { return wanted }
        guard publisher.tokenTurn == nil else { return 0 }
        let count = meter.isWaiting ? 0 : meter.pay(wanted, for: publisher, rates, now: now.monotonic)
        if count < wanted {
            publisher.tokenTurn = meter.channels.append(publisher)
            reached(shortage(meter, now: now))
            lookAgain(at: meter)
        }
        return count
    }

    private func shortage(_ meter: Meter, now: Instant) -> LimitReached {
        guard let rate = rates.messages else { return .publishBytes }
        return meter.account.messages.bucket.available(at: now.monotonic, rate) > 0 ? .publishBytes : .publishRate
    }

    /// Messages of a channel came.
    func charge(_ count: Int, _ bytes: Int, to publisher: Publisher, now: Instant) {
        guard rates.isLimited || publisher.paid > 0, let meter = publisher.meter else { return }
        meter.charge(count, bytes: bytes, to: publisher, rates, now: now.monotonic)
    }

    /// A publisher is gone: it waits for nothing, and what it paid for and did not use is its user's again.
    func leaveTokens(_ publisher: Publisher) {
        guard let meter = publisher.meter else { return }
        if publisher.pending != nil {
            publisher.pending = nil
            meter.parked.withdraw(key(publisher))
        }
        if publisher.early.count > 0 { dropEarly(publisher) }
        if publisher.paid > 0 { meter.refund(publisher, rates) }
        guard let turn = publisher.tokenTurn else { return }
        publisher.tokenTurn = nil
        meter.channels.withdraw(turn)
    }

    // Time

    /// Publishers that are looked at for a payment, and refused or told of what they get; the rest follows in the next
    /// one, `Limits.paceInterval` later.
    static let payments = 1024

    private func lookAgain(at meter: Meter) {
        meters.enlist(meter)
        let due = Swift.max(meter.due(rates), moment.monotonic + Limits.paceInterval)
        nextPayment = Swift.min(nextPayment, due)
    }

    /// Tokens may have come: those who wait for them go on, in turn. Or they have waited too long, or the broker shuts
    /// down.
    func payWaiting(now: Instant) {
        nextPayment = .max
        var left = Shard.payments
        for _ in 0..<meters.waitingCount where left > 0 {
            guard let meter = meters.nextWaiting() else { break }
            left -= 1
            if draining { refuseParked(meter, &left, now: now) }
            if meter.isChannelsTurn { payChannels(meter, &left, now: now) }
            payParked(meter, &left, now: now)
            if !meter.isChannelsTurn || meter.parked.isEmpty { payChannels(meter, &left, now: now) }
            meter.isChannelsTurn.toggle()
            giveUp(meter, &left, now: now)
            if meter.isWaiting { lookAgain(at: meter) }
        }
        if left <= 0 { nextPayment = Swift.min(nextPayment, now.monotonic + Limits.paceInterval) }
        putTokensBack()
    }

    private func payParked(_ meter: Meter, _ left: inout Int, now: Instant) {
        while left > 0, let waiting = meter.parked.first {
            let size = waiting.message.firstSize ?? Publisher.unknownSize
            if !meter.isTouched { touchedMeters.append(meter) }
            guard meter.take(size, rates, now: now.monotonic) == nil else { return }
            left -= 1
            meter.parked.removeFirst()
            guard let stream = streams[waiting.key.handle], stream.kind == .publisher else { continue }
            proceed(unsafeDowncast(stream, to: Publisher.self), waiting.message, now: now)
        }
    }

    /// What waited for tokens has them.
    private func proceed(_ publisher: Publisher, _ message: MessageBatch, now: Instant) {
        guard var request = publisher.pending else { return }
        publisher.pending = nil
        request.message = message
        let isComplete = request.complete
        if publisher.early.count > 0 { request.complete = false }
        if message.count == 0 { publisher.prepay() }
        submit(publisher, request, now: now)
        let early = publisher.early
        guard early.count > 0 else { return }
        dropEarly(publisher)
        early.forEach { metadata, payload in
            item(publisher, metadata: metadata, payload: payload, now: now)
            return false
        }
        if isComplete, streams[publisher.handle] === publisher { ended(publisher, .completed, now: now) }
    }

    private func payChannels(_ meter: Meter, _ left: inout Int, now: Instant) {
        for _ in 0..<meter.channels.count {
            guard left > 0, let publisher = meter.channels.first else { return }
            left -= 1
            guard !hasUnread(publisher) else {
                // It asks again when it has read its answers.
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
            if count > 0 {
                publisher.untoldCredit -= UInt64(count)
                sayGranted(UInt64(count), to: publisher)
            }
        }
    }

    /// Parked publishes give up.
    private func giveUp(_ meter: Meter, _ left: inout Int, now: Instant) {
        while left > 0, let waiting = meter.parked.first, waiting.deadline <= now.monotonic {
            left -= 1
            let limit = shortage(meter, now: now)
            reached(.parkTime)
            let most =
                limit == .publishRate
                ? counted(limits.publishRate, "message") : counted(limits.publishBytes, "byte")
            refuseFirst(
                meter, .rate,
                Refusal(
                    .limit, "\(meter.account.title) may publish \(most) a second, and has more waiting; send slower.",
                    retryAfter: 1), now: now)
        }
    }

    private func refuseParked(_ meter: Meter, _ left: inout Int, now: Instant) {
        while left > 0, meter.parked.first != nil {
            left -= 1
            refuseFirst(meter, .draining, Shard.drainingRefusal, now: now)
        }
    }

    private func refuseFirst(_ meter: Meter, _ loss: PublishLoss, _ refusal: Refusal, now: Instant) {
        guard let key = meter.parked.first?.key else { return }
        meter.parked.removeFirst()
        guard let stream = streams[key.handle], stream.kind == .publisher else { return }
        let publisher = unsafeDowncast(stream, to: Publisher.self)
        refusedPublish(loss, of: publisher.name)
        revoke(publisher, refusal, now: now)
    }
}
