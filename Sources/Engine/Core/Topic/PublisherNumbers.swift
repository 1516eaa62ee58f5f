// PublisherNumbers: the publishers of a topic that number their messages, and the last number of each. A message whose
// number has been used is a duplicate; one whose number does not follow the last one is refused.
//
//     unknown ──number 1──▶ known ──last + 1──▶ known ──unused for `publisherTime`──▶ unknown
//
// In a stored topic, a number is committed together with its message. Until then both values are kept, so that numbers
// can return to the committed ones if the store refuses the messages. A store saves what `takeChanges` returns in the
// same transaction as the messages, and passes it to `restore` after a restart.

import Bytes
import Replay

/// A publisher's id within its user. Two users may use the same id independently; all clients without credentials are
/// one user.
struct PublisherKey: Hashable, Sendable {
    /// 0 and the id; or 1, the length of the user's name in 2 bytes, the name, and the id. Stores save these bytes.
    let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    init(user: String?, id: String) {
        guard let user else {
            bytes = [0] + id.utf8
            return
        }
        let count = user.utf8.count
        precondition(count <= UInt16.max, "a user's name is longer than credentials can be")
        bytes = [1, UInt8(count >> 8), UInt8(count & 0xFF)] + user.utf8 + id.utf8
    }

    /// The id alone, for texts.
    var id: String {
        let start = bytes.first == 1 && bytes.count >= 3 ? 3 + Int(bytes[1]) << 8 + Int(bytes[2]) : 1
        return String(decoding: bytes.dropFirst(start), as: UTF8.self)
    }
}

/// A publisher and the number of one of its messages. An object, because few messages have one: most copies of requests
/// copy nil.
final class NumberedPublish: Sendable {
    let publisher: PublisherKey
    let number: UInt64

    init(publisher: PublisherKey, number: UInt64) {
        self.publisher = publisher
        self.number = number
    }
}

/// A known publisher of one topic.
final class KnownPublisher {
    /// How far the publisher has got; number 0 stands for no message.
    struct Progress: Equatable, Sendable {
        var number: UInt64 = 0
        var sequence = SequenceNumber(0)
    }

    let key: PublisherKey
    /// Its last message.
    fileprivate(set) var last = Progress()
    /// Its last committed message.
    fileprivate(set) var committed = Progress()
    /// When it is forgotten, on the monotonic clock, unless it is used before.
    fileprivate var expires: UInt64 = 0
    /// Open channels with this publisher, during which it is not forgotten.
    fileprivate var channels = 0
    /// Whether `takeChanges` has to return it.
    fileprivate var isChanged = false
    fileprivate var isForgotten = false
    fileprivate var turn: TurnQueue<PublisherNumbers.Turn>.Ticket?

    fileprivate init(_ key: PublisherKey) { self.key = key }

    fileprivate var isInUse: Bool { channels > 0 || last.number > committed.number }
    fileprivate func isUncommitted(before first: SequenceNumber) -> Bool {
        !isForgotten && last.number > committed.number && last.sequence < first
    }

    /// What a topic remembers of a publisher takes this much memory in addition to its key.
    static let overhead = 256
    fileprivate var memory: Int { key.bytes.count + KnownPublisher.overhead }
}

/// A publisher as a store keeps it.
public struct StoredPublisher: Equatable, Sendable {
    /// Identifies the publisher and its user.
    public var key: [UInt8]
    /// The number of its last message, and that message's sequence.
    public var number: UInt64
    public var sequence: UInt64
    /// When it was last used, in ns since 1970.
    public var usedAt: Int64

    public init(key: [UInt8], number: UInt64, sequence: UInt64, usedAt: Int64) {
        self.key = key
        self.number = number
        self.sequence = sequence
        self.usedAt = usedAt
    }
}

/// What has changed since the last call of `takeChanges`. Removals come first: a publisher in both lists was forgotten
/// and is known again.
public struct PublisherChanges: Equatable, Sendable {
    /// Keys of publishers.
    public internal(set) var removed: [[UInt8]] = []
    public internal(set) var changed: [StoredPublisher] = []

    var isEmpty: Bool { removed.isEmpty && changed.isEmpty }
}

final class PublisherNumbers {
    /// What a message's number means.
    enum Verdict: Equatable {
        /// It is the next one.
        case next
        /// The message has been published before.
        case duplicate
        /// At least one message is missing before it.
        case gap(last: UInt64)
        /// The publisher is not known, and the number is not 1.
        case unknown
    }

    /// A publisher, and when it may have to be forgotten.
    typealias Turn = (publisher: KnownPublisher, until: UInt64)

    /// Messages whose commit a publisher's numbers wait for.
    private struct Uncommitted {
        let publisher: KnownPublisher
        let last: KnownPublisher.Progress
        let count: Int
    }

    private let context: ShardContext
    private let isStored: Bool
    private var known: [PublisherKey: KnownPublisher] = [:]
    /// All known publishers, each once, by time. A publisher that was used since it was queued is queued again.
    private var line = TurnQueue<Turn>()
    private var uncommitted = TurnQueue<Uncommitted>()
    /// Whether changes are collected for a store.
    var collectsChanges = false
    private var changed: [KnownPublisher] = []
    private var removed: [PublisherKey] = []
    /// Bytes of all known publishers.
    private(set) var memory = 0

    /// - Parameter isStored: whether messages are committed later than they are appended.
    init(_ context: ShardContext, isStored: Bool) {
        self.context = context
        self.isStored = isStored
    }

    deinit { giveBack() }

    var count: Int { known.count }

    // Looking up

    /// The publisher with this key, if it is known.
    func find(_ key: PublisherKey, now: Instant) -> KnownPublisher? {
        guard let publisher = known[key] else { return nil }
        guard publisher.expires <= now.monotonic, !publisher.isInUse else { return publisher }
        remove(publisher)
        return nil
    }

    static func verdict(on number: UInt64, of publisher: KnownPublisher?) -> Verdict {
        verdict(on: number, last: publisher?.last.number ?? 0)
    }

    /// - Parameter last: the publisher's last number; 0 if it is not known.
    static func verdict(on number: UInt64, last: UInt64) -> Verdict {
        if last == 0 { return number == 1 ? .next : .unknown }
        if number <= last { return .duplicate }
        return number == last + 1 ? .next : .gap(last: last)
    }

    /// The publisher with this key, which becomes known if it is not.
    /// - Throws: the refusal at a limit.
    func findOrAdd(_ key: PublisherKey, now: Instant) throws(Refusal) -> KnownPublisher {
        if let publisher = find(key, now: now) { return publisher }
        let limits = context.limits
        guard known.count < limits.publishersPerTopic else {
            throw context.refusal(
                at: .publishersPerTopic,
                "The topic knows \(counted(limits.publishersPerTopic, "publisher")), the maximum; reuse their ids, "
                    + "or try again later.")
        }
        guard context.quotas.publishers.take(limit: limits.publishers) else {
            throw context.refusal(
                at: .publishers,
                "The broker knows \(counted(limits.publishers, "publisher")), the maximum; reuse their ids, "
                    + "or try again later.")
        }
        let publisher = KnownPublisher(key)
        publisher.expires = now.monotonic.addingClamped(limits.publisherTime)
        insert(publisher)
        return publisher
    }

    private func insert(_ publisher: KnownPublisher) {
        known[publisher.key] = publisher
        queue(publisher, until: publisher.expires)
        memory += publisher.memory
        context.memory.add(publisher.memory)
    }

    private func queue(_ publisher: KnownPublisher, until: UInt64) {
        publisher.turn = line.append((publisher, until))
    }

    // Use

    /// Messages of the publisher were appended: `count` with consecutive numbers, the last at `sequence`.
    @inline(__always)
    func note(_ count: Int, of publisher: KnownPublisher, upTo sequence: SequenceNumber, now: Instant) {
        assert(!publisher.isForgotten && sequence > publisher.last.sequence)
        publisher.last.number += UInt64(count)
        publisher.last.sequence = sequence
        use(publisher, now: now)
        if isStored {
            uncommitted.append(Uncommitted(publisher: publisher, last: publisher.last, count: count))
        } else {
            publisher.committed = publisher.last
        }
    }

    /// The publisher is used, if only for a duplicate.
    @inline(__always)
    func use(_ publisher: KnownPublisher, now: Instant) {
        publisher.expires = now.monotonic.addingClamped(context.limits.publisherTime)
        save(publisher)
    }

    /// Makes `takeChanges` return the publisher.
    @inline(__always)
    private func save(_ publisher: KnownPublisher) {
        guard collectsChanges, !publisher.isChanged else { return }
        publisher.isChanged = true
        changed.append(publisher)
    }

    /// Makes `takeChanges` return all publishers, because the store has refused some changes.
    func saveAgain() {
        for publisher in known.values where publisher.last.number > 0 { save(publisher) }
    }

    /// A channel begins to use the publisher.
    func open(_ publisher: KnownPublisher) { publisher.channels += 1 }

    /// A channel has ended.
    func close(_ publisher: KnownPublisher, now: Instant) {
        assert(publisher.channels > 0)
        publisher.channels -= 1
        if publisher.isForgotten { return }
        // Its first message was not appended.
        if publisher.last.number == 0, publisher.channels == 0 { return remove(publisher) }
        publisher.expires = now.monotonic.addingClamped(context.limits.publisherTime)
    }

    // Forgetting

    private func remove(_ publisher: KnownPublisher) {
        guard known.removeValue(forKey: publisher.key) != nil else { return }
        publisher.isForgotten = true
        if let turn = publisher.turn { line.withdraw(turn) }
        publisher.turn = nil
        memory -= publisher.memory
        context.memory.add(-publisher.memory)
        context.quotas.publishers.give()
        if collectsChanges { removed.append(publisher.key) }
    }

    /// When `expire` has something to do, on the monotonic clock; nil if nothing is known.
    var deadline: UInt64? { line.first?.until }

    /// Forgets publishers that were not used for long enough. Returns how many it visited, at most `most`.
    func expire(most: Int, now: Instant) -> Int {
        var visited = 0
        while visited < most, let (publisher, until) = line.first, until <= now.monotonic {
            line.popFirst()
            visited += 1
            publisher.turn = nil
            if publisher.isInUse {
                queue(publisher, until: now.monotonic.addingClamped(context.limits.publisherTime))
            } else if publisher.expires > now.monotonic {
                queue(publisher, until: publisher.expires)
            } else {
                remove(publisher)
            }
        }
        return visited
    }

    /// Forgets everything: the topic has lost its name.
    func removeAll() {
        giveBack()
        for publisher in known.values { publisher.isForgotten = true }
        known = [:]
        line.removeAll()
    }

    private func giveBack() {
        context.memory.add(-memory)
        memory = 0
        for _ in 0..<known.count { context.quotas.publishers.give() }
    }

    // Committing

    /// The messages before `end` are committed.
    func commit(upTo end: SequenceNumber) {
        while let next = uncommitted.first, next.last.sequence < end {
            next.publisher.committed = next.last
            uncommitted.popFirst()
        }
    }

    /// The store has refused all messages from `end` on, the end of those committed. Numbers return to the committed
    /// ones.
    func rollBack(to end: SequenceNumber) {
        commit(upTo: end)
        while let next = uncommitted.popFirst() {
            let publisher = next.publisher
            let first = next.last.sequence.advanced(by: 1 - next.count)
            if first < end {
                // Only a part of the run is committed.
                let kept = end - first
                publisher.committed = .init(
                    number: next.last.number - UInt64(next.count - kept), sequence: end.advanced(by: -1))
            }
            publisher.last = publisher.committed
            if publisher.last.number == 0, publisher.channels == 0 { remove(publisher) }
        }
    }

    // For a store

    /// What has changed since the last call, as of the last appended message. Call it together with taking the
    /// messages, and save both in one transaction. The store may still refuse messages that it was given before: their
    /// publishers are returned once it has answered.
    /// - Parameter first: the first message that is taken together with the changes.
    func takeChanges(from first: SequenceNumber = .first, now: Instant) -> PublisherChanges {
        var changes = PublisherChanges()
        var later: [KnownPublisher] = []
        for publisher in changed {
            if publisher.isUncommitted(before: first) {
                later.append(publisher)
                continue
            }
            publisher.isChanged = false
            guard !publisher.isForgotten, publisher.last.number > 0 else { continue }
            changes.changed.append(
                StoredPublisher(
                    key: publisher.key.bytes, number: publisher.last.number, sequence: publisher.last.sequence.value,
                    usedAt: usedAt(publisher, now: now)))
        }
        changes.removed = removed.map(\.bytes)
        changed.removeAll(keepingCapacity: true)
        changed += later
        removed.removeAll()
        return changes
    }

    private func usedAt(_ publisher: KnownPublisher, now: Instant) -> Int64 {
        let left = publisher.expires > now.monotonic ? publisher.expires - now.monotonic : 0
        let time = context.limits.publisherTime
        return now.wall &- Int64(clamping: time - Swift.min(left, time))
    }

    /// Adds publishers that a store has kept. Those that have expired are left out and, if changes are collected,
    /// reported as removed. Limits do not apply: what is stored was accepted.
    func restore(_ stored: [StoredPublisher], now: Instant) {
        let time = context.limits.publisherTime
        for one in stored.sorted(by: { $0.usedAt < $1.usedAt }) {
            let key = PublisherKey(bytes: one.key)
            // The clock may have been set back since then.
            let (difference, isFar) = now.wall.subtractingReportingOverflow(one.usedAt)
            let age = isFar ? UInt64.max : UInt64(Swift.max(0, difference))
            guard age < time, one.number > 0, known[key] == nil else {
                if known[key] == nil, collectsChanges { removed.append(key) }
                continue
            }
            let publisher = KnownPublisher(key)
            publisher.last = .init(number: one.number, sequence: SequenceNumber(one.sequence))
            publisher.committed = publisher.last
            publisher.expires = now.monotonic.addingClamped(time - age)
            context.quotas.publishers.add()
            insert(publisher)
        }
    }
}
