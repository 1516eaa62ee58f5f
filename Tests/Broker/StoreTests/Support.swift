// Support: a folder for each test, and batches whose bytes follow from their topic and sequence.

import Foundation
import Testing

@testable import Store

/// Runs `body` with a new folder, which is removed afterwards.
func withFolder(_ body: (String) throws -> Void) throws {
    let folder = NSTemporaryDirectory() + "forebay-store-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try body(folder)
}

func open(_ folder: String, bytes: UInt64 = 64 << 20, isReadOnly: Bool = false) throws -> Store {
    try Store.open(StoreOptions(directory: folder, bytes: bytes, isReadOnly: isReadOnly))
}

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

func record(_ id: UInt64, epoch: UInt64 = 1, isRelaxed: Bool = false) -> TopicRecord {
    TopicRecord(id: TopicID(id), name: "topic-\(id)", epoch: epoch, isRelaxed: isRelaxed, createdAt: 7)
}

extension StoreRead {
    var batches: [StoredBatch]? { if case .found(let batches) = self { batches } else { nil } }
    var goneBefore: UInt64? { if case .gone(let before) = self { before } else { nil } }
    var unreadableBefore: UInt64? { if case .unreadable(let before, _) = self { before } else { nil } }
}

extension Store {
    func all(_ id: TopicID, from sequence: UInt64 = 1) -> [StoredBatch] {
        read(id, from: sequence, upTo: .max, bytes: .max).batches ?? []
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

func copyFile(_ from: String, _ to: String) throws {
    try? FileManager.default.removeItem(atPath: to)
    try FileManager.default.copyItem(atPath: from, toPath: to)
}
