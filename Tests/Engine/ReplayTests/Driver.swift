// Runs the same random operations on a Subscription and on the naive model, and compares everything observable after
// each step.

import ForebayWire
import Replay

struct Driver: ~Copyable {
    enum Shape: Sendable {
        /// Like an engine: append, deliver, settle. The subscription receives batches, split at random; the model
        /// receives messages one by one. So this also compares batched with single processing.
        case batches
        /// Any call at any time, with pending arrivals: both get the same calls.
        case anyOrder
        /// Like `batches`, with larger buffers and steps that split the waiting messages into many ranges.
        case manyRanges
        /// Like `batches`, with sequences that have no message. Both get the same batches, because a hole is passed
        /// only between them.
        case holes

        /// A part of the seeds of tests with this shape.
        var tag: UInt64 {
            switch self {
            case .anyOrder: 0
            case .batches: 1
            case .manyRanges: 2
            case .holes: 3
            }
        }
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    private let shape: Shape
    private var subscription: Subscription
    private var model: NaiveSubscription
    private var end: UInt64
    private var log: [String] = []
    private var lastDelivered: UInt64?
    private var reportedDropped: UInt64 = 0
    private var deliveries: UInt64 = 0
    private var ends = 0

    @discardableResult
    static func run(_ random: inout Random, _ policy: Overflow, _ shape: Shape, steps: Int) throws
        -> NaiveSubscription
    {
        var driver = Driver(&random, policy, shape)
        try driver.compare()
        for _ in 0..<steps {
            try driver.step(&random)
            try driver.compare()
        }
        try driver.finish()
        return driver.model
    }

    private init(_ random: inout Random, _ policy: Overflow, _ shape: Shape) {
        self.shape = shape
        let lower = UInt64(random.int(0...12))
        let upper = lower + UInt64(random.int(0...(random.chance(20) ? 300 : 15)))
        let near = Int(lower) - 4...Int(upper) + 3
        let start: Start
        switch random.int(0...3) {
        case 0: start = .next
        case 1: start = .all
        case 2: start = .last(UInt64(random.int(0...20)))
        default: start = .from(SequenceNumber(UInt64(max(0, random.int(near)))))
        }
        let buffer: Int
        if shape == .manyRanges {
            buffer = random.int(70...200)
        } else {
            buffer = random.chance(80) ? random.int(1...5) : random.int(6...90)
        }
        let mode = random.pick([Credit.Mode.outstanding, .cumulative])
        subscription = Subscription(
            start: start, window: window(lower..<upper), buffer: buffer, overflow: policy, credit: Credit(mode: mode))
        model = NaiveSubscription(start: start, retained: lower..<upper, buffer: buffer, policy: policy, mode: mode)
        end = upper
        log.append("\(policy.name) buffer \(buffer) \(start) in \(lower)..<\(upper), \(mode), \(shape)")
        guard shape == .holes else { return }
        // The last sequence has a message.
        for sequence in lower..<max(lower + 1, upper) - 1 where random.chance(20) {
            model.holes[sequence] = random.chance(50)
        }
        passHoles()
    }

    // Steps

    private mutating func step(_ random: inout Random) throws {
        switch shape {
        case .manyRanges: try stepManyRanges(&random)
        case .batches, .anyOrder, .holes: try stepAnything(&random)
        }
    }

    private mutating func stepAnything(_ random: inout Random) throws {
        switch random.int(1...100) {
        case 1...45: try append(random.chance(90) ? random.int(1...6) : random.int(7...40), &random)
        case 46...70: try request(random.pick([0, 1, 1, 2, 3, 5, 20, UInt32(random.int(0...9))]))
        case 71...72: try request(random.pick([0x7FFF_FFFF, .max, 0x7FFF_FFFE, 0x4000_0000]))
        case 73...86: try flush(random.chance(30) ? .max : random.int(0...6), &random)
        case 87...94: evict(&random)
        case 95...97: try takeEnd()
        case 98: endTopic(random.chance(50) ? .completed : .failed)
        case 99 where random.chance(50): fail(random.pick([.blockedTooLong, .bytes, .buffer]))
        default: applyPolicy()
        }
    }

    private mutating func stepManyRanges(_ random: inout Random) throws {
        switch random.int(1...200) {
        case 1...150:
            // One message is delivered, and more arrive: those that do not fit leave a hole, and the next message
            // starts a new range.
            try request(1)
            try append(random.int(2...4), &random)
        case 151...172: try append(random.chance(70) ? random.int(1...3) : random.int(4...30), &random)
        case 173...194: try request(UInt32(random.chance(80) ? random.int(1...4) : random.int(5...30)))
        case 195...198: try flush(random.int(0...3), &random)
        case 199: if random.chance(20) { evict(&random) }
        default: if random.chance(10) { try request(UInt32(random.int(50...200))) }
        }
    }

    private mutating func append(_ count: Int, _ random: inout Random) throws {
        let room = random.chance(50) ? Int.max : random.int(0...8)
        log.append("append \(count) room \(room)")
        guard shape != .holes else { return try appendWithHoles(count, room, &random) }
        guard shape != .anyOrder else {
            for _ in 0..<count { model.arrive() }
            end += UInt64(count)
            subscription.appended(upTo: SequenceNumber(end))
            return
        }
        var expected: [Delivery] = []
        var modelRoom = room
        for _ in 0..<count {
            model.arrive()
            expected += take(&modelRoom)
            model.applyPolicy()
        }
        var got: [Delivery] = []
        var rest = count
        var left = room
        while rest > 0 {
            let batch = random.chance(60) ? rest : random.int(1...rest)
            rest -= batch
            end += UInt64(batch)
            subscription.appended(upTo: SequenceNumber(end))
            got += handOver(&left, &random)
            subscription.applyPolicy()
        }
        try check(got, expected)
    }

    /// Appends messages, with holes before some of them.
    private mutating func appendWithHoles(_ count: Int, _ room: Int, _ random: inout Random) throws {
        let first = end
        for _ in 0..<count {
            while random.chance(25) {
                let isLost = random.chance(50)
                for _ in 0..<random.int(1...4) {
                    model.holes[end] = isLost
                    end += 1
                }
            }
            end += 1
        }
        for _ in first..<end { model.arrive() }
        log.append("up to \(end) with \(model.holes.filter { $0.key >= first }.sorted { $0.key < $1.key })")
        subscription.appended(upTo: SequenceNumber(end))
        passHoles()
        var (left, modelRoom) = (room, room)
        try check(handOver(&left, &random), take(&modelRoom))
        subscription.applyPolicy()
        model.applyPolicy()
        passHoles()
    }

    private mutating func passHoles() {
        subscription.holes = model.holes
        subscription.passHoles()
        model.passHoles()
    }

    private mutating func flush(_ room: Int, _ random: inout Random) throws {
        log.append("flush \(room)")
        var (left, modelRoom) = (room, room)
        try check(handOver(&left, &random), take(&modelRoom))
    }

    private mutating func applyPolicy() {
        log.append("settle")
        subscription.applyPolicy()
        model.applyPolicy()
        passHoles()
    }

    private mutating func request(_ n: UInt32) throws {
        log.append("request \(n)")
        try equal("request", subscription.request(n), model.request(n))
    }

    private mutating func evict(_ random: inout Random) {
        // Mostly within what is needed, sometimes before it, sometimes beyond the last known end.
        let span = Int(end) - Int(model.cursor)
        let head = Int(model.cursor) + random.int(-2...(random.chance(85) ? span / 3 + 1 : span + 3))
        log.append("evict before \(max(0, head))")
        subscription.evict(before: SequenceNumber(UInt64(max(0, head))))
        model.evict(before: UInt64(max(0, head)))
        end = max(end, model.topicEnd)
        if shape != .anyOrder {
            subscription.applyPolicy()
            model.applyPolicy()
        }
        passHoles()
    }

    private mutating func endTopic(_ how: TopicEnd) {
        log.append("end \(how)")
        subscription.topicEnded(how, at: SequenceNumber(end))
        model.topicEnded(how)
    }

    private mutating func fail(_ cause: OverflowCause) {
        log.append("fail \(cause)")
        subscription.fail(cause)
        model.fail(cause)
    }

    private mutating func takeEnd() throws {
        log.append("takeEnd")
        let (got, expected) = (subscription.takeEnd(), model.takeEnd())
        try equal("takeEnd", got, expected)
        if got != nil { ends += 1 }
    }

    // Delivery

    private mutating func take(_ room: inout Int) -> [Delivery] {
        var deliveries: [Delivery] = []
        while room > 0, let delivery = model.deliverOne() {
            deliveries.append(delivery)
            room -= 1
        }
        return deliveries
    }

    /// Like `Subscription.flush`, in pieces of any size.
    private mutating func handOver(_ room: inout Int, _ random: inout Random) -> [Delivery] {
        var deliveries: [Delivery] = []
        while room > 0, !subscription.deliverable.isEmpty {
            var piece = min(room, random.chance(70) ? .max : random.int(0...3))
            let offered = piece
            deliveries += subscription.flush(room: &piece)
            room -= offered - piece
        }
        return deliveries
    }

    private mutating func check(_ got: [Delivery], _ expected: [Delivery]) throws {
        try equal("deliveries", got, expected)
        for delivery in got {
            if let last = lastDelivered, delivery.sequence <= last {
                throw failure("G2: \(delivery.sequence) after \(last)")
            }
            lastDelivered = delivery.sequence
            reportedDropped += delivery.droppedBefore
            deliveries += 1
        }
        if ends > 0 && !got.isEmpty { throw failure("G5: delivered after the end") }
    }

    // Comparison

    private func compare() throws {
        try equal("waiting", subscription.waiting, model.waiting.count)
        try equal("limit", subscription.limit, model.limit)
        try equal("cursor", subscription.cursor.value, model.cursor)
        try equal("delivered", subscription.delivered, model.delivered)
        try equal("dropped", subscription.dropped, model.dropped)
        try equal("dropped since delivery", subscription.droppedSinceDelivery, model.droppedSinceDelivery)
        try equal("missed at start", subscription.missedAtStart, model.missedAtStart)
        try equal("gap at start", subscription.gapAtStart, model.gapAtStart)
        try equal("joined", subscription.joined.value, model.joined)
        try equal("end", subscription.end, model.end)
        try equal("over", subscription.isOver, model.isOver)
        try equal("available", subscription.credit.available, model.available)
        try equal("requested", subscription.credit.requested, model.asked)
        try compareDeliverable()
        try compareBlock()

        try equal("deliveries counted", subscription.delivered, deliveries)
        if subscription.delivered > subscription.credit.requested && !subscription.credit.isUnbounded {
            throw failure("G1: delivered \(subscription.delivered) of \(subscription.credit.requested)")
        }
        if !subscription.credit.isUnbounded {
            try equal(
                "ledger", subscription.credit.requested, subscription.delivered + subscription.credit.outstanding)
        }
        if subscription.overflow != .block && subscription.waiting > subscription.limit {
            throw failure("\(subscription.waiting) wait, the limit is \(subscription.limit)")
        }
        try equal(
            "Σ dropped-before", reportedDropped + subscription.droppedSinceDelivery,
            subscription.missedAtStart + subscription.dropped)
    }

    private func compareDeliverable() throws {
        var next = model
        var (count, before) = (0, UInt64(0))
        if let first = next.deliverOne() {
            (count, before) = (1, first.droppedBefore)
            try equal("deliverable from", subscription.deliverable.lower.value, first.sequence)
            var last = first.sequence
            while let following = next.deliverOne(), following.sequence == last + 1 {
                last += 1
                count += 1
            }
        }
        try equal("dropped before next", subscription.droppedBeforeNext, before)
        try equal("deliverable", subscription.deliverable.count, count)
    }

    private func compareBlock() throws {
        var floor: UInt64?
        if subscription.overflow == .block && !model.isOver {
            floor = max(model.cursor, model.joined)
            if case .overflow = model.ending { floor = nil }
        }
        try equal("floor", subscription.floor?.value, floor)
        try equal("horizon", subscription.horizon?.value, floor.map { $0 + UInt64(model.buffer) })
    }

    /// Whatever happened, credit and room deliver everything that waits, and then the end, once.
    private mutating func finish() throws {
        log.append("finish")
        applyPolicy()
        endTopic(.completed)
        let endDueBefore = subscription.end
        if model.waiting.isEmpty && !model.isOver && endDueBefore == nil {
            throw failure("G5: nothing waits, and the end is not due")
        }
        try request(0x7FFF_FFFF)
        var random = Random(seed: 1)
        try flush(.max, &random)
        try compare()
        try takeEnd()
        try takeEnd()
        try equal("ends", ends, 1)
        try request(5)
        try append(3, &random)
        applyPolicy()
        try flush(.max, &random)
        evict(&random)
        fail(.bytes)
        endTopic(.failed)
        try takeEnd()
        try compare()
        try equal("ends", ends, 1)
    }

    private func equal<T: Equatable>(_ what: String, _ got: T, _ expected: T) throws {
        if got != expected { throw failure("\(what) is \(got), not \(expected)") }
    }

    private func failure(_ text: String) -> Failure {
        Failure(description: "\(text)\n  after " + log.suffix(60).joined(separator: "; "))
    }
}
