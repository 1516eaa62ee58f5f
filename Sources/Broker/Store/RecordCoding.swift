// RecordCoding: records as bytes in the database. All integers are big-endian.
//
//     topic      version 1 | state (bit 0: relaxed; bits 4-5: end) | generation 8 | epoch 8 | created 8
//                | name length 4 | name | end length 4 | end's error text | count 1 | (epoch 8, end 8) each
//     extent     version 1 | first 8 | end 8 | charge before first 8 | charge 8 | last timestamp 8
//     publisher  version 1 | number 8 | sequence 8 | used 8

import Bytes

/// Reads fields from bytes that may be damaged.
struct RecordReader {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    mutating func integer<T: FixedWidthInteger>(_ type: T.Type = T.self) -> T? {
        guard bytes.count - offset >= MemoryLayout<T>.size else { return nil }
        defer { offset += MemoryLayout<T>.size }
        return bytes.bigEndian(at: offset, as: type)
    }

    mutating func text() -> String? {
        guard let size = integer(UInt32.self), bytes.count - offset >= Int(size) else { return nil }
        defer { offset += Int(size) }
        return String(decoding: bytes.slice(offset..<offset + Int(size)), as: UTF8.self)
    }
}

/// A topic's row.
struct TopicRow: Equatable {
    var record: TopicRecord
    /// The store's generation when the record was written.
    var generation: UInt64

    private static let version: UInt8 = 1
    private static let relaxed: UInt8 = 1
    private static let completed: UInt8 = 1 << 4
    private static let failed: UInt8 = 2 << 4

    init(_ record: TopicRecord, generation: UInt64) {
        self.record = record
        self.generation = generation
        self.record.former = record.former.suffix(TopicRecord.mostFormer)
    }

    /// Nil if the bytes are not a row.
    init?(_ id: TopicID, _ bytes: UnsafeRawBufferPointer) {
        var reader = RecordReader(bytes)
        guard reader.integer(UInt8.self) == TopicRow.version, let state = reader.integer(UInt8.self),
            let generation = reader.integer(UInt64.self), let epoch = reader.integer(UInt64.self),
            let created = reader.integer(Int64.self),
            let name = reader.text(), let reason = reader.text(), let count = reader.integer(UInt8.self)
        else { return nil }
        let end: StoredEnd? =
            switch state & 0x30 {
            case TopicRow.completed: .completed
            case TopicRow.failed: .failed(reason)
            default: nil
            }
        record = TopicRecord(
            id: id, name: name, epoch: epoch, isRelaxed: state & TopicRow.relaxed != 0, createdAt: created, end: end)
        self.generation = generation
        for _ in 0..<count {
            guard let epoch = reader.integer(UInt64.self), let end = reader.integer(UInt64.self) else { return nil }
            record.former.append(FormerEpoch(epoch: epoch, end: end))
        }
        guard reader.isAtEnd else { return nil }
    }

    var encoded: [UInt8] {
        var state: UInt8 = record.isRelaxed ? TopicRow.relaxed : 0
        var reason = ""
        switch record.end {
        case nil: break
        case .completed: state |= TopicRow.completed
        case .failed(let text):
            state |= TopicRow.failed
            reason = text
        }
        var bytes = [TopicRow.version, state]
        bytes.append(bigEndian: generation)
        bytes.append(bigEndian: record.epoch)
        bytes.append(bigEndian: record.createdAt)
        bytes.append(text: record.name)
        bytes.append(text: reason)
        bytes.append(UInt8(record.former.count))
        for former in record.former {
            bytes.append(bigEndian: former.epoch)
            bytes.append(bigEndian: former.end)
        }
        return bytes
    }

    /// Begins a new epoch, and remembers the present one, which ended before the sequence `end`.
    mutating func renew(epoch: UInt64, end: UInt64) {
        record.former.append(FormerEpoch(epoch: record.epoch, end: end))
        record.former = record.former.suffix(TopicRecord.mostFormer)
        record.epoch = epoch
    }
}

/// What a topic's batches say, kept separately: opening a store reads only small rows that lie close together.
/// All fields are 0 before the first batch.
struct TopicExtent: Equatable {
    var first: UInt64 = 0
    var end: UInt64 = 0
    var chargedBefore: UInt64 = 0
    var charged: UInt64 = 0
    var lastTimestamp: Int64 = 0

    private static let version: UInt8 = 1

    init() {}

    var isEmpty: Bool { end == 0 }

    /// Nil if the bytes are not an extent.
    init?(_ bytes: UnsafeRawBufferPointer) {
        var reader = RecordReader(bytes)
        guard reader.integer(UInt8.self) == TopicExtent.version, let first = reader.integer(UInt64.self),
            let end = reader.integer(UInt64.self), let before = reader.integer(UInt64.self),
            let charged = reader.integer(UInt64.self), let last = reader.integer(Int64.self), reader.isAtEnd
        else { return nil }
        self.first = first
        self.end = end
        chargedBefore = before
        self.charged = charged
        lastTimestamp = last
    }

    var encoded: [UInt8] {
        var bytes = [TopicExtent.version]
        for word in [first, end, chargedBefore, charged, UInt64(bitPattern: lastTimestamp)] {
            bytes.append(bigEndian: word)
        }
        return bytes
    }

    /// Adds a batch that continues the topic.
    mutating func append(_ first: UInt64, _ header: BatchHeader) {
        if isEmpty {
            self.first = first
            chargedBefore = header.chargedBefore
        }
        end = first + UInt64(header.count)
        charged = header.chargedAfter
        lastTimestamp = header.lastTimestamp
    }
}

extension PublisherRecord {
    private static let version: UInt8 = 1

    /// Nil if the bytes are not a record.
    init?(_ key: [UInt8], _ bytes: UnsafeRawBufferPointer) {
        var reader = RecordReader(bytes)
        guard reader.integer(UInt8.self) == PublisherRecord.version, let number = reader.integer(UInt64.self),
            let sequence = reader.integer(UInt64.self), let used = reader.integer(Int64.self), reader.isAtEnd
        else { return nil }
        self.init(key: key, number: number, sequence: sequence, usedAt: used)
    }

    var encoded: [UInt8] {
        var bytes = [PublisherRecord.version]
        bytes.append(bigEndian: number)
        bytes.append(bigEndian: sequence)
        bytes.append(bigEndian: usedAt)
        return bytes
    }
}

extension [UInt8] {
    mutating func append<T: FixedWidthInteger>(bigEndian value: T) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }

    fileprivate mutating func append(text: String) {
        append(bigEndian: UInt32(text.utf8.count))
        append(contentsOf: text.utf8)
    }
}
