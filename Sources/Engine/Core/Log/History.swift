// History: messages of a stored topic that are in its store and not in memory. A view asks for those that a
// subscription is due, and the driver brings them by a later input. Nobody else waits meanwhile.

import Bytes
import Replay

/// What a shard asks of the store that keeps its topics, in order. A topic is named by its epoch.
public enum StoreRequest: Sendable {
    /// To be kept: `Shard.committed` takes how far they are.
    case append(AppendedMessages)
    /// Messages of the topic before `first` are needed no more.
    case trim(topic: UInt64, before: SequenceNumber)
    /// To be brought: `Shard.answer` takes what there is.
    case read(HistoryRequest)
}

/// Messages that a topic has appended, for its store.
public struct AppendedMessages: Sendable {
    public let topic: UInt64
    public let first: SequenceNumber
    /// The sequence after the last of them.
    public let end: SequenceNumber
    let pieces: [LogPiece]

    /// Those of them from `sequence` on.
    package func after(_ sequence: SequenceNumber) -> AppendedMessages {
        AppendedMessages(topic: topic, first: sequence, end: end, pieces: pieces.filter { $0.end > sequence })
    }

    /// A copy of each, in order.
    package var messages: [StoredMessage] {
        pieces.flatMap { piece in
            let first = Swift.max(first, piece.first)
            return (first - piece.first..<piece.visible).map { StoredMessage(piece.chunk, piece.chunk.entry($0)) }
        }
    }
}

/// A message as a store keeps it.
package struct StoredMessage: Sendable {
    var metadata: [UInt8]
    var payload: [UInt8]
    var timestamp: Int64
    /// What all messages of the topic before it were charged, in bytes.
    var chargedBefore: UInt64

    /// Bytes of metadata and payload.
    package var size: Int { metadata.count + payload.count }

    fileprivate init(_ chunk: Chunk, _ entry: Chunk.Entry) {
        metadata = Array(chunk.metadata(entry))
        var bytes: [UInt8] = []
        chunk.forEachPayloadPart(entry) { bytes.append(contentsOf: $0) }
        payload = bytes
        timestamp = entry.timestamp
        chargedBefore = entry.chargedBefore
    }
}

/// Messages that a view asks the store for.
public struct HistoryRequest: Sendable {
    public let topic: UInt64
    public let first: SequenceNumber
    /// What is asked for is before this; fewer may be brought, but the first.
    public let end: SequenceNumber
}

/// What a store has of the messages that it was asked for.
public enum HistoryAnswer: Sendable {
    case found(StoredMessages)
    /// All messages of the topic before this are gone.
    case gone(before: SequenceNumber)
    /// Those that were asked for cannot be read up to this.
    case unreadable(before: SequenceNumber)
}

/// Messages from a store, as they stand in a log.
public struct StoredMessages: Sendable {
    let piece: LogPiece

    /// - Parameter first: the sequence of the first of the messages, of which there is one at least.
    package init(first: SequenceNumber, _ messages: some Collection<StoredMessage>, budget: MemoryBudget) {
        let sizes = messages.map { $0.metadata.count + PayloadFraming.framed($0.payload.count) + Chunk.entrySize }
        let chunk = Chunk(
            first: first, hasMetadata: messages.contains { !$0.metadata.isEmpty },
            capacity: sizes.reduce(0, +), budget: budget)
        for message in messages {
            message.payload.withUnsafeBytes { payload in
                message.metadata.withUnsafeBytes { metadata in
                    chunk.append(
                        metadata: metadata, payload: payload, framed: PayloadFraming.framed(payload.count),
                        timestamp: message.timestamp, chargedBefore: message.chargedBefore)
                }
            }
        }
        piece = LogPiece(chunk: chunk, visible: messages.count)
    }
}

/// Pieces that a store brought to one view, the latest few of them.
struct History {
    static let most = 4

    private(set) var pieces: [LogPiece] = []

    /// The oldest message that is here.
    var first: SequenceNumber? { pieces.map(\.first).min() }

    func piece(of sequence: SequenceNumber) -> LogPiece? {
        pieces.first { $0.first <= sequence && sequence < $0.end }
    }

    /// - Parameter most: pieces that stay, this one among them.
    mutating func insert(_ piece: LogPiece, most: Int) {
        while pieces.count >= most { pieces.removeFirst().chunk.letGo() }
        pieces.append(piece)
    }

    /// Nobody needs messages before `sequence`.
    mutating func evict(before sequence: SequenceNumber) {
        guard !pieces.isEmpty else { return }
        for piece in pieces where piece.end <= sequence { piece.chunk.letGo() }
        pieces.removeAll { $0.end <= sequence }
    }
}
