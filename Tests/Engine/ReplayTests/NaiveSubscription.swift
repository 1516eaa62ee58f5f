// The model that Subscription is compared with: an array of waiting sequence numbers, a policy applied to one message
// at a time, and a list of lost messages. Slow, but simple enough to be obviously correct.

import ForebayWire
import Replay

struct Delivery: Equatable {
    var sequence: UInt64
    var droppedBefore: UInt64
}

struct NaiveSubscription {
    let policy: Overflow
    let buffer: Int
    let joined: UInt64
    let missedAtStart: UInt64
    let gapAtStart: Bool

    var limit: Int
    var waiting: [UInt64]
    var pending: [UInt64] = []
    var topicEnd: UInt64
    /// Lost messages that no delivery has reported.
    var lost: [UInt64] = []
    var missedUntold: UInt64
    var dropped: UInt64 = 0
    var delivered: UInt64 = 0
    var ending: End?
    var isOver = false
    /// Sequences without a message, and whether they are lost.
    var holes: [UInt64: Bool] = [:]

    let mode: Credit.Mode
    var asked: UInt64 = 0
    var credit: UInt64 = 0
    var unbounded = false

    /// How often each limit on the number of ranges was reached, so that a test can check that this happened.
    var refusedForRanges = 0
    var replacedForRanges = 0

    init(start: Start, retained: Range<UInt64>, buffer: Int, policy: Overflow, mode: Credit.Mode) {
        self.policy = policy
        self.buffer = policy == .latest ? 1 : buffer
        self.mode = mode
        joined = retained.upperBound
        topicEnd = retained.upperBound
        let all = Array(retained)
        var missed: UInt64 = 0
        var gap = false
        switch start {
        case .next: waiting = []
        case .all: waiting = all
        case .last(let n): waiting = n > UInt64(all.count) ? all : Array(all.suffix(Int(n)))
        case .from(let s):
            waiting = all.filter { $0 >= s.value }
            if s.value > retained.upperBound { gap = true }
            for sequence in 1..<max(retained.lowerBound, 1) where sequence >= s.value {
                missed += 1
                gap = true
            }
        }
        missedAtStart = missed
        missedUntold = missed
        gapAtStart = gap
        if policy == .latest {
            while waiting.count > 1 {
                let oldest = waiting.removeFirst()
                if case .from = start {
                    lost.append(oldest)
                    dropped += 1
                }
            }
        }
        limit = self.buffer
        if waiting.count > self.buffer { limit = self.buffer + waiting.count }
    }

    var cursor: UInt64 { waiting.first ?? pending.first ?? topicEnd }

    var droppedSinceDelivery: UInt64 { UInt64(lost.count) + missedUntold }

    var end: End? { waiting.isEmpty && pending.isEmpty && !isOver ? ending : nil }

    var available: Int { unbounded ? .max : Int(credit) }

    mutating func request(_ n: UInt32) -> Bool {
        if n == 0 { return false }
        if isOver { return true }
        asked += UInt64(n)
        credit += UInt64(n)
        if mode == .outstanding && credit >= 0x7FFF_FFFF { unbounded = true }
        if mode == .cumulative && asked >= 0x7FFF_FFFF { unbounded = true }
        return true
    }

    /// Appends one more message to the topic.
    mutating func arrive() {
        if ending == nil { pending.append(topicEnd) }
        topicEnd += 1
    }

    /// Delivers the next message, if there is one and credit allows it.
    mutating func deliverOne() -> Delivery? {
        guard available > 0 else { return nil }
        let sequence: UInt64
        if !waiting.isEmpty {
            sequence = waiting.removeFirst()
        } else if !pending.isEmpty {
            sequence = pending.removeFirst()
        } else {
            return nil
        }
        if !unbounded { credit -= 1 }
        delivered += 1
        let before = UInt64(lost.filter { $0 < sequence }.count) + missedUntold
        lost.removeAll { $0 < sequence }
        missedUntold = 0
        relax()
        passHoles()
        return Delivery(sequence: sequence, droppedBefore: before)
    }

    /// Passes sequences without a message, one by one. Those in front of which messages wait are treated like messages.
    mutating func passHoles() {
        while let first = waiting.first ?? pending.first, let isLost = holes[first] {
            if waiting.isEmpty { pending.removeFirst() } else { waiting.removeFirst() }
            relax()
            guard isLost else { continue }
            lose(first)
            if policy == .fail { overflow(.lost) }
        }
    }

    /// Applies the policy to everything pending.
    mutating func applyPolicy() {
        let arrivals = pending
        pending = []
        for message in arrivals {
            place(message)
            relax()
        }
    }

    private mutating func place(_ message: UInt64) {
        let full = waiting.count >= limit
        switch policy {
        case .block:
            waiting.append(message)
        case .dropOldest, .latest:
            if full { lose(waiting.removeFirst()) }
            waiting.append(message)
        case .fail:
            if full { overflow(.buffer) } else { waiting.append(message) }
        case .dropNewest:
            if full {
                lose(message)
            } else if countRanges(waiting + [message]) > Subscription.maxRanges {
                refusedForRanges += 1
                lose(message)
            } else {
                waiting.append(message)
            }
        case .replaceNewest:
            if full && countRanges(Array(waiting.dropLast()) + [message]) > Subscription.maxRanges {
                replacedForRanges += 1
                loseLastRange()
            } else if full {
                lose(waiting.removeLast())
            }
            waiting.append(message)
        }
    }

    private func countRanges(_ messages: [UInt64]) -> Int {
        // There are too few messages for so many ranges; this check keeps the model fast enough.
        guard messages.count > Subscription.maxRanges else { return 0 }
        var ranges = 1
        for index in 1..<messages.count where messages[index - 1] + 1 != messages[index] { ranges += 1 }
        return ranges
    }

    private mutating func loseLastRange() {
        var message = waiting.removeLast()
        lose(message)
        while let previous = waiting.last, previous + 1 == message {
            message = waiting.removeLast()
            lose(message)
        }
    }

    private mutating func lose(_ message: UInt64) {
        lost.append(message)
        dropped += 1
    }

    private mutating func relax() {
        if waiting.count <= buffer { limit = buffer }
    }

    mutating func evict(before head: UInt64) {
        while topicEnd < head { arrive() }
        let before = dropped
        for message in waiting + pending where message < head { lose(message) }
        waiting.removeAll { $0 < head }
        pending.removeAll { $0 < head }
        relax()
        if policy == .fail && dropped > before { overflow(.bytes) }
    }

    mutating func topicEnded(_ how: TopicEnd) {
        if ending == nil { ending = how == .completed ? .completed : .topicFailed }
    }

    mutating func fail(_ cause: OverflowCause) {
        if isOver || end != nil { return }
        for message in waiting + pending { lose(message) }
        waiting = []
        pending = []
        relax()
        overflow(cause)
    }

    private mutating func overflow(_ cause: OverflowCause) {
        if case .overflow = ending { return }
        ending = .overflow(cause)
    }

    mutating func takeEnd() -> End? {
        guard let due = end else { return nil }
        isOver = true
        return due
    }
}
