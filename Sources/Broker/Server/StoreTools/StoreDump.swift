// StoreDump: prints the messages of a topic, as text for people or as lines of JSON.

import Bytes
import Core
import HTTP2
import Replay
import Store

struct StoreDump: ~Copyable {
    private let options: DumpOptions
    private var out = ByteBuffer()
    private var code: Int32 = 0

    init(_ options: DumpOptions) { self.options = options }

    /// Bytes that are collected before they are written.
    private static let piece = 64 << 10

    /// Returns the exit code: 1 if there is no such topic, or some messages cannot be read.
    mutating func run(_ store: Store, _ name: String) throws(StoreError) -> Int32 {
        guard let topic = try store.topics().first(where: { $0.record.name == name }) else {
            Broker.complain("the store has no topic \(JSONText.escaped(name)); forebayd store info lists its topics")
            return 1
        }
        var hasGap = false
        _ = try store.dump(name, from: options.from) { before, reason in
            hasGap = true
            Broker.complain("messages before \(before) cannot be read: \(reason)")
        } _: { batch in
            guard let stored = StoredMessages(batch) else {
                hasGap = true
                Broker.complain("messages before \(batch.end) cannot be read: their form is unknown")
                return true
            }
            return print(stored.messages, from: batch.first, epoch: topic.record.epoch)
        }
        flush()
        return code == 0 && hasGap ? 1 : code
    }

    /// Returns false if the output cannot be written.
    private mutating func print(_ messages: [StoredMessage], from first: UInt64, epoch: UInt64) -> Bool {
        for (index, message) in messages.enumerated() {
            let sequence = first + UInt64(index)
            guard sequence >= options.from else { continue }
            message.payload.withUnsafeBytes { payload in
                switch options.format {
                case .text: text(sequence, message.timestamp, payload)
                case .json:
                    message.metadata.withUnsafeBytes { metadata in
                        let streamed = StreamedMessage(
                            epoch: epoch, sequence: sequence, timestamp: message.timestamp, metadata: metadata,
                            payload: payload)
                        StreamRecord(streamed, as: .jsonLines).append(into: &out)
                    }
                }
            }
            if out.count >= StoreDump.piece { flush() }
            guard code == 0 else { return false }
        }
        return true
    }

    private mutating func text(_ sequence: UInt64, _ time: Int64, _ payload: UnsafeRawBufferPointer) {
        var line = "\(sequence) \(timestamp(time)) "
        if JSONText.escapes(payload) == nil {
            line += "(\(payload.count) bytes that are not text)"
        } else {
            for scalar in String(decoding: payload, as: UTF8.self).unicodeScalars {
                if TextScan.isControl(scalar.value), scalar != "\t" {
                    line += scalar == "\n" ? "\\n" : "\\u{\(String(scalar.value, radix: 16))}"
                } else {
                    line.unicodeScalars.append(scalar)
                }
            }
        }
        out.append(line + "\n")
    }

    private mutating func flush() {
        guard !out.isEmpty else { return }
        if code == 0 { code = Broker.show(Array(out.readable)) }
        out.removeAll()
    }
}

extension StoredMessages {
    /// The messages of a batch; nil if they are not in the form that this version writes.
    fileprivate init?(_ batch: StoredBatch) {
        let messages = withExtendedLifetime(batch) {
            StoredMessages(
                first: SequenceNumber(batch.first), [(count: batch.count, bytes: batch.body.bytes)],
                budget: MemoryBudget(limit: .max))
        }
        guard let messages else { return nil }
        self = messages
    }
}
