// ChannelState: a channel's messages and the demand for more, over any number of connections. No I/O.
//
//     publisher ──► waiting ──► sent() ──► in flight ──► acknowledged()
//                      ▲                       │
//                      └──────── lost() ───────┘
//
// The publisher is asked for what the broker has granted, minus outstanding requests and waiting messages, so that it
// is never ahead of the broker's credit. Item 0 needs no credit.

import RSocket
import StreamsCore

struct ChannelState {
    enum Loss: Equatable {
        /// Everything that was lost can be sent again.
        case resumes
        /// The broker may have accepted messages that it did not acknowledge.
        case unknown
    }

    private let repeats: Bool
    private var waiting = Fifo()
    /// Messages sent and not acknowledged; empty unless these are to be repeated.
    private var inFlight = Fifo()
    /// The numbers of messages sent and accepted on the current connection.
    private var sent: UInt64 = 0
    private var accepted: UInt64 = 0
    /// The number of messages accepted on earlier connections.
    private var before: UInt64 = 0
    /// Requested from the publisher and not yet received.
    private var asked: UInt64 = 0
    /// Whether the publisher has ended.
    private(set) var isFinished = false

    /// - Parameter repeats: whether messages that were not acknowledged when the connection was lost are sent again on
    ///   the next one.
    init(repeats: Bool) { self.repeats = repeats }

    /// Messages that the broker has acknowledged.
    var acknowledged: UInt64 { before + accepted }
    /// Whether a message waits to be sent.
    var hasWaiting: Bool { !waiting.isEmpty }
    /// Whether the publisher has ended and all its messages are sent.
    var isSent: Bool { isFinished && waiting.isEmpty }
    /// Whether everything that was sent is acknowledged.
    var isAcknowledged: Bool { sent == accepted }

    /// How many more messages to request from the publisher now.
    /// - Parameter credit: the messages that the broker allows; nil while no channel is open, when one message may be
    ///   requested to open it with.
    mutating func ask(credit: UInt32?) -> UInt64 {
        guard !isFinished else { return 0 }
        let ahead = asked + UInt64(waiting.count)
        let allowed = credit.map(UInt64.init) ?? 1
        guard allowed > ahead else { return 0 }
        asked += allowed - ahead
        return allowed - ahead
    }

    /// Takes a message from the publisher. Returns false if it was not requested.
    mutating func receive(_ item: Outgoing) -> Bool {
        guard asked > 0 else { return false }
        asked -= 1
        waiting.append(item)
        return true
    }

    mutating func finish() { isFinished = true }

    /// The message to send next.
    var next: Outgoing? { waiting.first }

    /// Notes that the next message was sent.
    mutating func didSend() {
        guard let item = waiting.popFirst() else { return }
        sent += 1
        if repeats { inFlight.append(item) }
    }

    /// Takes the broker's report of how many messages of the current channel it has accepted in total.
    mutating func acknowledge(_ count: UInt64) {
        guard count > accepted, count <= sent else { return }
        if repeats { for _ in accepted..<count { _ = inFlight.popFirst() } }
        accepted = count
    }

    /// Notes that the broker has accepted everything that was sent.
    mutating func acknowledgeAll() { acknowledge(sent) }

    /// Notes that the connection was lost. Returns what that means for unacknowledged messages.
    mutating func lost() -> Loss {
        let isKnown = repeats || isAcknowledged
        before += accepted
        sent = 0
        accepted = 0
        waiting.prepend(&inFlight)
        return isKnown ? .resumes : .unknown
    }
}

/// A message to be sent to the broker.
struct Outgoing: Sendable, Equatable {
    var payload: [UInt8]
    var properties = MessageProperties()

    /// The bytes that the message holds.
    var size: Int { payload.count + properties.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }

    /// Like the array's `withUnsafeBytes`, with a typed error.
    func withBytes<Value, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try payload.withUnsafeBytes { bytes in
            Result { () throws(Failure) in try body(bytes) }
        }.get()
    }
}

/// Messages, first in, first out. The user of this type limits their number.
struct Fifo {
    private var items: [Outgoing] = []
    /// Items before this index have been removed.
    private var head = 0

    var count: Int { items.count - head }
    var isEmpty: Bool { head == items.count }
    var first: Outgoing? { isEmpty ? nil : items[head] }

    mutating func append(_ item: Outgoing) { items.append(item) }

    mutating func popFirst() -> Outgoing? {
        guard !isEmpty else { return nil }
        let item = items[head]
        items[head] = Outgoing(payload: [])
        head += 1
        if isEmpty {
            items.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 64, head > items.count / 2 {
            items.removeFirst(head)
            head = 0
        }
        return item
    }

    /// Inserts the messages of `other` at the front, and empties it.
    mutating func prepend(_ other: inout Fifo) {
        guard !other.isEmpty else { return }
        items = Array(other.items[other.head...]) + items[head...]
        head = 0
        other = Fifo()
    }
}
