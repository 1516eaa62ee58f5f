// The table of publishers that number their messages, compared with a naive model.

import Testing

@testable import Core
import Replay

@Suite struct PublisherNumbersTests {
    private let quotas = Quotas()
    private let memory = MemoryBudget(limit: 1 << 30)

    private func context(_ change: (inout Limits) -> Void = { _ in }) -> ShardContext {
        var limits = Limits()
        change(&limits)
        return ShardContext(
            index: 0, shards: 1, limits: limits, memory: memory, quotas: quotas, store: StoreHealth(), seed: 1,
            now: start)
    }

    private let start = Instant(monotonic: 5_000_000_000, wall: 1_700_000_000_000_000_000)
    private static let hour: UInt64 = 3_600_000_000_000

    private func later(_ seconds: UInt64) -> Instant {
        Instant(
            monotonic: start.monotonic + seconds * 1_000_000_000, wall: start.wall + Int64(seconds) * 1_000_000_000)
    }

    private func key(_ id: String, of user: String? = nil) -> PublisherKey { PublisherKey(user: user, id: id) }

    // Keys

    @Test func keysBelongToUsers() {
        let keys = [
            key("a"), key("b"), key("a", of: "u"), key("a", of: "ua"), key("ua"), key("aa", of: "u"),
            key("", of: "uaa"),
            key("a", of: ""),
        ]
        #expect(Set(keys).count == keys.count)
        #expect(Set(keys.map(\.bytes)).count == keys.count)
        for (key, id) in zip(keys, ["a", "b", "a", "a", "ua", "aa", "", "a"]) { #expect(key.id == id) }
        let long = String(repeating: "n", count: 300)
        #expect(key("x", of: long).id == "x")
    }

    // Numbers

    @Test func aNumberIsNextOrKnownOrRefused() throws {
        let numbers = PublisherNumbers(context(), isStored: false)
        func verdict(_ number: UInt64) -> PublisherNumbers.Verdict {
            PublisherNumbers.verdict(on: number, of: numbers.find(key("a"), now: start))
        }
        for number in [2, 7, UInt64.max] { #expect(verdict(number) == .unknown) }
        #expect(verdict(1) == .next)
        #expect(numbers.count == 0, "asking makes nothing known")
        let publisher = try numbers.findOrAdd(key("a"), now: start)
        #expect(verdict(1) == .next)
        #expect(verdict(2) == .unknown)
        numbers.note(3, of: publisher, upTo: SequenceNumber(12), now: start)
        for number in 1...3 { #expect(verdict(UInt64(number)) == .duplicate) }
        #expect(verdict(4) == .next)
        for number in [5, UInt64.max] { #expect(verdict(number) == .gap(last: 3)) }
        #expect(publisher.committed == publisher.last && publisher.last.sequence == SequenceNumber(12))
    }

    // Limits and memory

    @Test func limitsApplyToNewPublishers() throws {
        let context = context {
            $0.publishersPerTopic = 2
            $0.publishers = 3
        }
        let (one, two) = (PublisherNumbers(context, isStored: false), PublisherNumbers(context, isStored: false))
        let known = try one.findOrAdd(key("a"), now: start)
        one.note(1, of: known, upTo: SequenceNumber(1), now: start)
        _ = try one.findOrAdd(key("b"), now: start)
        #expect(throws: Refusal.self) { try one.findOrAdd(key("c"), now: start) }
        #expect(try one.findOrAdd(key("a"), now: start) === known)
        _ = try two.findOrAdd(key("c"), now: start)
        #expect(throws: Refusal.self) { try two.findOrAdd(key("d"), now: start) }
        #expect(context.counters.limits[.publishersPerTopic] == 1 && context.counters.limits[.publishers] == 1)
        one.removeAll()
        #expect(quotas.publishers.value == 1)
        _ = try two.findOrAdd(key("d"), now: start)
    }

    @Test func memoryIsCountedAndGivenBack() throws {
        do {
            let numbers = PublisherNumbers(context(), isStored: false)
            for index in 0..<10 { _ = try numbers.findOrAdd(key("p\(index)", of: "someone"), now: start) }
            let each = key("p0", of: "someone").bytes.count + KnownPublisher.overhead
            #expect(numbers.memory == 10 * each && memory.used == 10 * each && quotas.publishers.value == 10)
            #expect(numbers.expire(most: 4, now: later(3600)) == 4)
            #expect(numbers.count == 6 && memory.used == 6 * each && quotas.publishers.value == 6)
        }
        #expect(memory.used == 0 && quotas.publishers.value == 0)
    }

    // Expiry

    @Test func publishersAreForgottenWhenNotUsed() throws {
        let numbers = PublisherNumbers(context(), isStored: false)
        for id in ["a", "b", "c"] {
            let publisher = try numbers.findOrAdd(key(id), now: start)
            numbers.note(1, of: publisher, upTo: publisher.last.sequence.advanced(by: 1), now: start)
        }
        #expect(numbers.deadline == start.monotonic + Self.hour)
        // A duplicate is a use, too; and so is an open channel.
        numbers.use(try #require(numbers.find(key("b"), now: later(1000))), now: later(1000))
        let c = try #require(numbers.find(key("c"), now: start))
        numbers.open(c)
        #expect(numbers.expire(most: 10, now: later(3599)) == 0)
        #expect(numbers.expire(most: 10, now: later(3600)) == 3)
        #expect(numbers.find(key("a"), now: later(3600)) == nil)
        #expect(numbers.deadline == start.monotonic + 1_000_000_000_000 + Self.hour)
        // What is due is forgotten even before the sweep finds it.
        #expect(numbers.find(key("b"), now: later(4599)) != nil)
        #expect(numbers.find(key("b"), now: later(4600)) == nil)
        #expect(numbers.count == 1)
        numbers.close(c, now: later(5000))
        #expect(numbers.find(key("c"), now: later(8599)) != nil)
        #expect(numbers.expire(most: 10, now: later(8600)) == 1)
        #expect(numbers.count == 0 && numbers.deadline == nil && memory.used == 0)
    }

    @Test func channelsThatPublishNothingLeaveNothing() throws {
        let numbers = PublisherNumbers(context(), isStored: false)
        for index in 0..<1000 {
            let publisher = try numbers.findOrAdd(key("\(index)"), now: start)
            numbers.open(publisher)
            numbers.close(publisher, now: start)
        }
        #expect(numbers.count == 0 && numbers.deadline == nil)
    }

    // Committing and rolling back

    @Test func aRunIsCommittedAsAWholeAndRolledBackInPart() throws {
        let numbers = PublisherNumbers(context(), isStored: true)
        let (a, b) = (try numbers.findOrAdd(key("a"), now: start), try numbers.findOrAdd(key("b"), now: start))
        numbers.note(2, of: a, upTo: SequenceNumber(2), now: start)
        numbers.note(1, of: b, upTo: SequenceNumber(3), now: start)
        numbers.note(4, of: a, upTo: SequenceNumber(7), now: start)
        numbers.note(1, of: b, upTo: SequenceNumber(8), now: start)
        numbers.commit(upTo: SequenceNumber(6))
        #expect(a.committed == .init(number: 2, sequence: SequenceNumber(2)) && a.last.number == 6)
        numbers.rollBack(to: SequenceNumber(6))
        #expect(a.last == .init(number: 4, sequence: SequenceNumber(5)) && a.committed == a.last)
        #expect(b.last == .init(number: 1, sequence: SequenceNumber(3)) && b.committed == b.last)
        // A publisher of which nothing was committed is not known.
        numbers.note(1, of: try numbers.findOrAdd(key("c"), now: start), upTo: SequenceNumber(6), now: start)
        numbers.rollBack(to: SequenceNumber(6))
        #expect(numbers.find(key("c"), now: start) == nil && numbers.count == 2)
    }

    @Test func whatIsNotCommittedIsNotForgotten() throws {
        let numbers = PublisherNumbers(context(), isStored: true)
        let publisher = try numbers.findOrAdd(key("a"), now: start)
        numbers.note(1, of: publisher, upTo: SequenceNumber(1), now: start)
        #expect(numbers.expire(most: 10, now: later(4000)) == 1)
        #expect(numbers.find(key("a"), now: later(4000)) === publisher)
        numbers.commit(upTo: SequenceNumber(2))
        #expect(numbers.find(key("a"), now: later(4000)) == nil)
    }

    // For a store

    @Test func aStoreGetsWhatHasChanged() throws {
        let numbers = PublisherNumbers(context(), isStored: true)
        numbers.collectsChanges = true
        let (a, b) = (try numbers.findOrAdd(key("a", of: "u"), now: start), try numbers.findOrAdd(key("b"), now: start))
        numbers.note(2, of: a, upTo: SequenceNumber(2), now: start)
        numbers.note(1, of: a, upTo: SequenceNumber(3), now: later(7))
        numbers.note(1, of: b, upTo: SequenceNumber(4), now: later(8))
        let first = numbers.takeChanges(now: later(10))
        #expect(
            first.changed == [
                StoredPublisher(key: key("a", of: "u").bytes, number: 3, sequence: 3, usedAt: later(7).wall),
                StoredPublisher(key: key("b").bytes, number: 1, sequence: 4, usedAt: later(8).wall),
            ])
        #expect(first.removed == [] && numbers.takeChanges(now: later(10)).isEmpty)
        numbers.commit(upTo: SequenceNumber(5))
        numbers.use(b, now: later(3000))
        #expect(numbers.expire(most: 10, now: later(3607)) == 2)
        numbers.note(
            1, of: try numbers.findOrAdd(key("a", of: "u"), now: later(3607)), upTo: SequenceNumber(5), now: later(3607)
        )
        let second = numbers.takeChanges(now: later(3608))
        #expect(second.removed == [key("a", of: "u").bytes])
        #expect(second.changed.map(\.number) == [1, 1] && second.changed[0].usedAt == later(3000).wall)
    }

    @Test func whatAStoreKeptIsKnownAgain() throws {
        let stored = [
            StoredPublisher(key: key("new").bytes, number: 9, sequence: 20, usedAt: start.wall),
            StoredPublisher(key: key("old").bytes, number: 5, sequence: 10, usedAt: start.wall - 3_600_000_000_000),
            StoredPublisher(key: key("mid").bytes, number: 7, sequence: 12, usedAt: start.wall - 1_000_000_000_000),
            StoredPublisher(key: key("ahead").bytes, number: 1, sequence: 30, usedAt: .max),
            StoredPublisher(key: key("ages").bytes, number: 1, sequence: 30, usedAt: .min),
        ]
        let numbers = PublisherNumbers(context { $0.publishersPerTopic = 1 }, isStored: true)
        numbers.collectsChanges = true
        numbers.restore(stored, now: start)
        #expect(numbers.count == 3 && quotas.publishers.value == 3)
        #expect(numbers.find(key("new"), now: start)?.last == .init(number: 9, sequence: SequenceNumber(20)))
        #expect(Set(numbers.takeChanges(now: start).removed) == [key("old").bytes, key("ages").bytes])
        #expect(numbers.find(key("mid"), now: later(2600)) == nil)
        #expect(numbers.find(key("ahead"), now: later(3599)) != nil)
        #expect(numbers.expire(most: 10, now: later(3600)) == 2)
        #expect(numbers.count == 0)
    }

    // Against a model that keeps every message

    /// Messages have number 0 once their publisher is not known any more.
    private struct Model {
        struct Message {
            var key: PublisherKey
            var number: UInt64
            var isCommitted: Bool
        }

        var log: [Message] = []
        /// When each known publisher was used, in seconds.
        var used: [PublisherKey: UInt64] = [:]
        /// What a store has.
        var saved: [[UInt8]: StoredPublisher] = [:]

        func last(_ key: PublisherKey) -> UInt64 { log.lazy.filter { $0.key == key }.map(\.number).max() ?? 0 }

        /// A publisher is forgotten an hour after its last use, unless its messages wait to be committed.
        mutating func expire(_ time: UInt64) {
            for (key, at) in used where at + 3600 <= time {
                if log.contains(where: { $0.key == key && !$0.isCommitted }) { continue }
                used[key] = nil
                for index in log.indices where log[index].key == key { log[index].number = 0 }
            }
        }

        mutating func commit(_ changes: PublisherChanges) {
            for key in changes.removed { saved[key] = nil }
            for one in changes.changed { saved[one.key] = one }
            for index in log.indices { log[index].isCommitted = true }
        }

        /// Returns the end of the log.
        mutating func rollBack() -> SequenceNumber {
            let kept = log.prefix { $0.isCommitted }.count
            let refused = Set(log[kept...].map(\.key))
            log.removeSubrange(kept...)
            for key in refused where last(key) == 0 { used[key] = nil }
            return SequenceNumber(UInt64(kept + 1))
        }

        func verdict(_ number: UInt64, of key: PublisherKey) -> PublisherNumbers.Verdict {
            let last = last(key)
            if last == 0 { return number == 1 ? .next : .unknown }
            return number <= last ? .duplicate : number == last + 1 ? .next : .gap(last: last)
        }
    }

    @Test(arguments: 1...20)
    func itAgreesWithAModel(_ seed: Int) throws {
        var random = RandomSource(seed: UInt64(seed))
        func next(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
        let isStored = seed % 4 > 0
        let numbers = PublisherNumbers(context { $0.publishersPerTopic = 6 }, isStored: isStored)
        numbers.collectsChanges = isStored
        var model = Model()
        var time: UInt64 = 0
        for _ in 0..<600 {
            time += UInt64(next(400))
            let now = later(time)
            let key = key("p\(next(8))", of: next(2) == 0 ? nil : "u")
            model.expire(time)
            switch next(10) {
            case 0..<6:
                let number = UInt64(max(1, Int(model.last(key)) + next(4) - 1))
                let verdict = PublisherNumbers.verdict(on: number, of: numbers.find(key, now: now))
                #expect(verdict == model.verdict(number, of: key))
                if verdict == .duplicate {
                    numbers.use(try #require(numbers.find(key, now: now)), now: now)
                    model.used[key] = time
                }
                guard verdict == .next else { continue }
                guard let publisher = try? numbers.findOrAdd(key, now: now) else {
                    // The oldest may be due without having been found yet.
                    #expect(numbers.count == 6)
                    _ = numbers.expire(most: 100, now: now)
                    continue
                }
                let count = 1 + next(3)
                for number in number..<number + UInt64(count) {
                    model.log.append(.init(key: key, number: number, isCommitted: !isStored))
                }
                numbers.note(count, of: publisher, upTo: SequenceNumber(UInt64(model.log.count)), now: now)
                model.used[key] = time
            case 6 where isStored, 7 where isStored:
                // A transaction with all that has been appended.
                model.commit(numbers.takeChanges(now: now))
                numbers.commit(upTo: SequenceNumber(UInt64(model.log.count + 1)))
                for key in model.used.keys { #expect(model.saved[key.bytes]?.number == model.last(key)) }
            case 8 where isStored: numbers.rollBack(to: model.rollBack())
            default: _ = numbers.expire(most: 1 + next(3), now: now)
            }
            for (key, at) in model.used where at + 3600 > time {
                #expect(numbers.find(key, now: now)?.last.number == model.last(key))
            }
        }
    }
}
