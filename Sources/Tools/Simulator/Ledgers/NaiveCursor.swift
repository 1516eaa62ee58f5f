// NaiveCursor: what a subscription should receive, according to the contract: a list of the sequences that wait, with
// the policy applied to one message at a time. This cursor has no ranges or batches.

struct NaiveCursor: Equatable {
    let policy: String
    let buffer: Int
    /// Messages from here on arrived after the subscription joined.
    let joined: UInt64
    var waiting: [UInt64] = []
    /// How many messages may wait.
    var limit: Int
    /// The sequence that arrives next.
    var next: UInt64
    var delivered = 0
    var dropped = 0
    /// Messages lost since the last delivery, or earlier if a later message is still to come.
    var unsent: [UInt64] = []
    /// The number of messages missing at the start and not reported yet.
    var missed: Int
    /// Whether the policy `fail` has ended the subscription. Nothing more is then accepted.
    var hasFailed = false
    /// Whether the policy `fail` may have ended the subscription; the next observation decides.
    var mayHaveFailed = false

    /// - Parameters:
    ///   - begin: the first message that the subscription should receive.
    ///   - joined: the next sequence when the subscription joined.
    ///   - missed: how many requested messages before `begin` are not received.
    init(policy: String, buffer: Int, begin: UInt64, joined: UInt64, missed: Int) {
        self.policy = policy
        self.buffer = policy == "latest" ? 1 : buffer
        self.joined = joined
        self.missed = missed
        next = joined
        waiting = Array(begin..<Swift.max(begin, joined))
        limit = self.buffer
        if waiting.count > self.buffer { limit = self.buffer + waiting.count }
    }

    /// Under `latest`: keeps only the newest waiting message. All others, including those retained when the
    /// subscription joined, are dropped.
    mutating func keepNewest(isReported: Bool) {
        while waiting.count > 1 {
            let oldest = waiting.removeFirst()
            if isReported { lose(oldest) }
        }
        limit = buffer
    }

    var unreportedCount: Int { unsent.count + missed }

    /// Hands over `count` messages, first those that wait and then those that arrive. Returns nil if there are not
    /// enough.
    mutating func handOver(_ count: Int, upTo end: UInt64) -> [Handed]? {
        var handed: [Handed] = []
        for _ in 0..<count {
            let sequence: UInt64
            if !waiting.isEmpty {
                sequence = waiting.removeFirst()
            } else if next < end, !hasFailed {
                sequence = next
                next += 1
            } else {
                return nil
            }
            let before = unsent.count { $0 < sequence } + missed
            unsent.removeAll { $0 < sequence }
            missed = 0
            delivered += 1
            handed.append(Handed(sequence: sequence, droppedBefore: before))
            relax()
        }
        return handed
    }

    /// Makes messages that arrive up to `end` wait, within what the policy allows.
    mutating func arrive(upTo end: UInt64) {
        while next < end {
            if !hasFailed { place(next) }
            next += 1
            relax()
        }
    }

    private mutating func place(_ sequence: UInt64) {
        guard waiting.count >= limit else {
            // At most 64 separate ranges are remembered.
            if policy == "drop-newest", isSeparate(sequence), ranges >= 64 { return lose(sequence) }
            return waiting.append(sequence)
        }
        switch policy {
        case "drop-oldest", "latest":
            lose(waiting.removeFirst())
            waiting.append(sequence)
        case "drop-newest": lose(sequence)
        case "replace-newest":
            let replaced = waiting.removeLast()
            lose(replaced)
            if isSeparate(sequence), ranges >= 64 {
                // The arriving message replaces the entire last range.
                var last = replaced
                while waiting.last == last - 1 {
                    last = waiting.removeLast()
                    lose(last)
                }
            }
            waiting.append(sequence)
        case "fail": hasFailed = true
        default: waiting.append(sequence)
        }
    }

    private func isSeparate(_ sequence: UInt64) -> Bool { waiting.last.map { $0 + 1 != sequence } ?? true }

    private var ranges: Int {
        guard waiting.count >= 64 else { return waiting.isEmpty ? 0 : 1 }
        return 1 + zip(waiting, waiting.dropFirst()).count { $0 + 1 != $1 }
    }

    /// Handles the log's loss of messages before `head`. Messages that arrive up to `end` are already there.
    mutating func evict(before head: UInt64, upTo end: UInt64) {
        let lost = waiting.filter { $0 < head }
        waiting.removeAll { $0 < head }
        var count = lost.count
        lost.forEach { lose($0) }
        while next < Swift.min(head, end), !hasFailed {
            lose(next)
            next += 1
            count += 1
        }
        relax()
        if policy == "fail", count > 0 { hasFailed = true }
    }

    private mutating func lose(_ sequence: UInt64) {
        dropped += 1
        unsent.append(sequence)
    }

    private mutating func relax() {
        if waiting.count <= buffer { limit = buffer }
    }
}

/// A message on its way to a subscriber.
struct Handed: Equatable {
    var sequence: UInt64
    var droppedBefore: Int
}
