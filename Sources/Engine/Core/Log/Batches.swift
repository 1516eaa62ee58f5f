// Batches: messages copied from a connection's input, either on their way to another shard or parked.

import RSocket

/// Messages of one channel, framed consecutively as the log keeps them.
typealias FramedRun = PayloadRun

/// Messages copied from a connection's input, either on their way to another shard or parked.
struct MessageBatch: Sendable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    /// Bytes that a message is charged in addition to its own while in a batch.
    static let overhead = 8
    /// What a batch of any size is charged in addition to its bytes on its way to another shard.
    static let envelope = 512

    /// What the batch is charged on its way to another shard.
    var weight: Int { bytes.count + MessageBatch.envelope }

    mutating func append(metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer) {
        // Most batches hold a single message.
        if count == 0 { bytes.reserveCapacity(MessageBatch.overhead + (metadata?.count ?? 0) + payload.count) }
        for length in [metadata?.count ?? 0, payload.count] {
            withUnsafeBytes(of: UInt32(length)) { bytes.append(contentsOf: $0) }
        }
        if let metadata { bytes.append(contentsOf: metadata) }
        bytes.append(contentsOf: payload)
        count += 1
    }

    /// Bytes of the first message, at least 1; nil if the batch is empty.
    var firstSize: Int? {
        var size: Int?
        forEach { metadata, payload in
            size = Swift.max(1, payload.count + (metadata?.count ?? 0))
            return false
        }
        return size
    }

    /// What the first message is charged in a log; nil if the batch is empty.
    var firstCharge: Int? {
        var charge: Int?
        forEach { metadata, payload in
            charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
            return false
        }
        return charge
    }

    /// Calls `body` with the first message; the batch must have one.
    func withFirst<Result>(
        _ body: (_ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        var result: Result?
        forEach { metadata, payload in
            result = body(metadata, payload)
            return false
        }
        return result!
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: false)
        count = 0
    }

    /// Calls `body` with each message in order until it returns false.
    func forEach(_ body: (_ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Bool) {
        bytes.withUnsafeBytes { all in
            var offset = 0
            while offset + MessageBatch.overhead <= all.count {
                let carried = Int(all.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
                let payload = Int(all.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self))
                offset += MessageBatch.overhead
                let metadata = UnsafeRawBufferPointer(rebasing: all[offset..<offset + carried])
                offset += carried
                guard
                    body(carried > 0 ? metadata : nil, UnsafeRawBufferPointer(rebasing: all[offset..<offset + payload]))
                else { return }
                offset += payload
            }
        }
    }
}

/// A run of a channel's messages on its way to another shard, framed as received.
struct FrameBatch: Sendable {
    private let bytes: [UInt8]
    private let stream: UInt32
    private let count: Int
    private let longest: Int

    init(_ run: FramedRun) {
        bytes = [UInt8](run.bytes)
        stream = run.stream
        count = run.count
        longest = run.longest
    }

    /// What the batch is charged on its way to another shard.
    var weight: Int { bytes.count + MessageBatch.envelope }

    func withRun(_ body: (FramedRun) -> Void) {
        bytes.withUnsafeBytes { body(FramedRun(checked: $0, stream: stream, count: count, longest: longest)) }
    }
}
