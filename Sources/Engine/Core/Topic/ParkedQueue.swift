// ParkedQueue: the publishes of one topic that wait for room, in order of arrival. Any of them can be withdrawn when
// its publisher leaves, at a cost independent of the number waiting: it leaves a gap, and the queue is compacted when
// gaps make up most of it.

import Replay

/// A publish that waits for room.
struct ParkedPublish {
    var key: StreamKey
    var message: MessageBatch
    var deadline: UInt64
    /// The message's number, if it is a single one that is numbered.
    var numbered: NumberedPublish?

    /// Bytes that it holds.
    fileprivate var size: Int { message.bytes.count + (numbered?.publisher.bytes.count ?? 0) }
}

struct ParkedQueue {
    private struct Entry {
        var publish: ParkedPublish
        var isGap = false
    }

    private var entries: [Entry] = []
    /// The index of the first entry; never a gap.
    private var head = 0
    /// The number of entries removed from the front so far, which is the position of `entries[0]`.
    private var base = 0
    private var places: [StreamKey: Int] = [:]
    private let budget: MemoryBudget
    /// Bytes of all waiting publishes.
    private(set) var bytes = 0
    /// What a waiting publish takes in addition to its bytes: its publisher, its stream, and its entry here.
    static let overhead = 512
    /// The broker's memory taken by all waiting publishes.
    var memory: Int { bytes + count * ParkedQueue.overhead }

    init(budget: MemoryBudget) { self.budget = budget }

    var count: Int { places.count }
    var isEmpty: Bool { places.isEmpty }
    var first: ParkedPublish? { head < entries.count ? entries[head].publish : nil }

    mutating func append(_ publish: ParkedPublish) {
        places[publish.key] = base + entries.count
        charge(publish.size, 1)
        entries.append(Entry(publish: publish))
    }

    mutating func removeFirst() {
        guard let first else { return }
        places[first.key] = nil
        charge(-first.size, -1)
        head += 1
        skipGaps()
    }

    /// Removes the publish with `key`, if it is waiting.
    mutating func withdraw(_ key: StreamKey) {
        guard let place = places.removeValue(forKey: key) else { return }
        charge(-entries[place - base].publish.size, -1)
        entries[place - base].publish.message.removeAll()
        entries[place - base].publish.numbered = nil
        entries[place - base].isGap = true
        skipGaps()
    }

    /// Empties the queue and returns the keys of the publishes, in order.
    mutating func removeAll() -> [StreamKey] {
        let keys = entries[head...].compactMap { $0.isGap ? nil : $0.publish.key }
        charge(-bytes, -count)
        entries.removeAll()
        places.removeAll()
        head = 0
        return keys
    }

    private mutating func charge(_ amount: Int, _ publishes: Int) {
        bytes += amount
        budget.addPending(amount + publishes * ParkedQueue.overhead)
    }

    private mutating func skipGaps() {
        while head < entries.count, entries[head].isGap { head += 1 }
        let isSparse = entries.count - head > 2 * places.count + 16
        if isSparse || head * 2 > entries.count {
            entries.removeFirst(head)
            base += head
            head = 0
        }
        guard isSparse else { return }
        entries.removeAll { $0.isGap }
        base = 0
        for (index, entry) in entries.enumerated() { places[entry.publish.key] = index }
    }
}
