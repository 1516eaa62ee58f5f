// Workload: a model of the store, simple enough to be right, and random writes that are applied to it.

import Store

/// A batch with a body that follows from its topic, first sequence and salt.
struct TestBatch: BatchSource, Equatable {
    var topic: TopicID
    var first: UInt64
    var count = 1
    var bodySize = 100
    var firstTimestamp: Int64 = 0
    var lastTimestamp: Int64 = 0
    var chargedBefore: UInt64 = 0
    var chargedAfter: UInt64 = 0
    var salt: UInt64 = 0

    var body: [UInt8] {
        var random = Random(state: topic.value &* 31 &+ first &* 1_000_003 &+ salt)
        return [UInt8](unsafeUninitializedCapacity: bodySize + 8) { bytes, count in
            let memory = UnsafeMutableRawBufferPointer(bytes)
            for offset in stride(from: 0, to: bodySize, by: 8) {
                memory.storeBytes(of: random.next(), toByteOffset: offset, as: UInt64.self)
            }
            count = bodySize
        }
    }

    func writeBody(to target: UnsafeMutableRawBufferPointer) { target.copyBytes(from: body) }

    var write: StoreWrite { .append(topic, self) }
    var end: UInt64 { first + UInt64(count) }

    func matches(_ batch: StoredBatch) -> Bool {
        batch.first == first && batch.count == count && batch.firstTimestamp == firstTimestamp
            && batch.lastTimestamp == lastTimestamp && batch.chargedBefore == chargedBefore
            && batch.chargedAfter == chargedAfter && Array(batch.body.bytes) == body
    }
}

/// A generator that repeats its series.
struct Random: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}

/// A topic of the model.
struct ModelTopic: Equatable {
    var record: TopicRecord
    var batches: [TestBatch] = []
    var publishers: [[UInt8]: PublisherRecord] = [:]
}

/// What a store must hold, and random writes.
struct Model {
    var topics: [TopicID: ModelTopic] = [:]
    var random: Random
    var time: Int64 = 0
    /// Size of the largest bodies in bytes; half of them have at most 200.
    var largest = 20_000

    /// A random write, already applied to the model.
    mutating func write() -> StoreWrite {
        guard topics.count >= 3,
            let id = topics.keys.sorted(by: { $0.value < $1.value }).randomElement(using: &random)
        else { return create() }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<3: return topics.count < 12 ? create() : delete(id)
        case 3..<5: return delete(id)
        case 5..<10:
            let end = StoredEnd.failed("\(time)")
            topics[id]!.record.end = end
            return .end(id, end)
        case 10..<15:
            topics[id]!.record.epoch += 1
            topics[id]!.record.former = Array(
                (topics[id]!.record.former + [FormerEpoch(epoch: 1, end: 2)]).suffix(16))
            return .create(topics[id]!.record)
        case 15..<30: return trim(id)
        case 30..<40: return publishers(id)
        default: return append(id)
        }
    }

    private mutating func create() -> StoreWrite {
        let id = TopicID(random.next())
        let name = String(repeating: "n", count: Int.random(in: 1...300, using: &random))
        topics[id] = ModelTopic(
            record: TopicRecord(
                id: id, name: name, epoch: 1, isRelaxed: Bool.random(using: &random), createdAt: time))
        return .create(topics[id]!.record)
    }

    private mutating func delete(_ id: TopicID) -> StoreWrite {
        topics[id] = nil
        return .delete(id)
    }

    private mutating func append(_ id: TopicID) -> StoreWrite {
        time += Int64.random(in: 0...2, using: &random)
        let last = topics[id]!.batches.last
        let size = Bool.random(using: &random) ? 200 : largest
        let batch = TestBatch(
            topic: id, first: last?.end ?? UInt64.random(in: 1...1000, using: &random),
            count: Int.random(in: 1...20, using: &random), bodySize: Int.random(in: 0...size, using: &random),
            firstTimestamp: time, lastTimestamp: time, chargedBefore: last?.chargedAfter ?? 0,
            chargedAfter: (last?.chargedAfter ?? 0) + 10, salt: random.next())
        topics[id]!.batches.append(batch)
        return batch.write
    }

    private mutating func trim(_ id: TopicID) -> StoreWrite {
        let batches = topics[id]!.batches
        let low = batches.first?.first ?? 1
        let before = UInt64.random(in: low...(batches.last?.end ?? 1) + 1, using: &random)
        while topics[id]!.batches.count > 1, topics[id]!.batches[0].end <= before {
            topics[id]!.batches.removeFirst()
        }
        return .trim(id, before: before)
    }

    private mutating func publishers(_ id: TopicID) -> StoreWrite {
        var added: [PublisherRecord] = []
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            let key = Array(
                repeating: UInt8.random(in: 0..<4, using: &random), count: .random(in: 1...480, using: &random))
            added.append(PublisherRecord(key: key, number: random.next(), sequence: random.next(), usedAt: time))
        }
        let removed = topics[id]!.publishers.keys.sorted { $0.lexicographicallyPrecedes($1) }.prefix(1)
        for key in removed { topics[id]!.publishers[key] = nil }
        for record in added { topics[id]!.publishers[record.key] = record }
        return .publishers(id, added, removed: Array(removed))
    }
}
