// History: messages of a stored topic that are in its store and not in memory. A view requests those that a
// subscription is to receive next, and the driver delivers them with a later input. Other subscriptions continue in the
// meantime.

import Bytes
import Replay

/// Messages that a topic has appended, for its store.
public struct AppendedMessages: Sendable {
    public let id: StoreID
    /// The topic's epoch.
    public let topic: UInt64
    /// How often the topic had withdrawn messages before these were appended.
    public let attempt: UInt32
    /// Whether publishers and subscribers wait for them.
    public let isAwaited: Bool
    public let first: SequenceNumber
    /// The sequence after the last of them.
    public let end: SequenceNumber
    let pieces: [LogPiece]

    /// The messages from `sequence` on.
    package func after(_ sequence: SequenceNumber) -> AppendedMessages {
        AppendedMessages(
            id: id, topic: topic, attempt: attempt, isAwaited: isAwaited, first: sequence, end: end,
            pieces: pieces.filter { $0.end > sequence })
    }

    /// Copies of the messages, in order.
    package var messages: [StoredMessage] {
        pieces.flatMap { piece in
            let first = Swift.max(first, piece.first)
            return (first - piece.first..<piece.visible).map { StoredMessage(piece.chunk, piece.chunk.entry($0)) }
        }
    }
}

/// A message as a store keeps it.
package struct StoredMessage: Sendable {
    /// The publisher's composite metadata; empty if there is none.
    package var metadata: [UInt8]
    package var payload: [UInt8]
    /// When the broker accepted it, in ns since 1970.
    package var timestamp: Int64
    /// The total charge of all earlier messages of the topic, in bytes; and the same with this message.
    package var chargedBefore: UInt64
    package var chargedAfter: UInt64 {
        chargedBefore &+ UInt64(Log.charge(payload: payload.count, metadata: metadata.count))
    }

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

/// Messages that a view requests from the store.
public struct HistoryRequest: Sendable {
    public let id: StoreID
    /// The topic's epoch.
    public let topic: UInt64
    public let first: SequenceNumber
    /// The end of the requested range. The answer may be shorter but must contain the first message.
    public let end: SequenceNumber
}

/// The store's answer to a request.
public enum HistoryAnswer: Sendable {
    case found(StoredMessages)
    /// All messages of the topic before this sequence are gone.
    case gone(before: SequenceNumber)
    /// The requested messages before this sequence cannot be read.
    case unreadable(before: SequenceNumber)
}

/// Messages from a store, in the log's format.
public struct StoredMessages: Sendable {
    let piece: LogPiece

    init(_ piece: LogPiece) { self.piece = piece }

    /// Copies of the messages, in order.
    package var messages: [StoredMessage] {
        (0..<piece.visible).map { StoredMessage(piece.chunk, piece.chunk.entry($0)) }
    }

    /// - Parameter first: the sequence of the first message. There must be at least one.
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

/// The latest few pieces that a store delivered to one view.
package struct History {
    package static let most = 4

    private(set) var pieces: [LogPiece] = []

    /// The oldest message that is held.
    var first: SequenceNumber? { pieces.map(\.first).min() }

    func piece(of sequence: SequenceNumber) -> LogPiece? {
        pieces.first { $0.first <= sequence && sequence < $0.end }
    }

    /// - Parameter most: pieces to keep, including this one.
    mutating func insert(_ piece: LogPiece, most: Int) {
        while pieces.count >= most { pieces.removeFirst().chunk.letGo() }
        pieces.append(piece)
    }

    /// Messages before `sequence` are no longer needed.
    mutating func evict(before sequence: SequenceNumber) {
        guard !pieces.isEmpty else { return }
        for piece in pieces where piece.end <= sequence { piece.chunk.letGo() }
        pieces.removeAll { $0.end <= sequence }
    }
}
