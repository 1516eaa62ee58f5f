// RSocketStream: a requester's state of one stream: credit in both directions, the halves that are open, and an
// unfinished message.
//
//            requester's half (what we send)         responder's half (what we receive)
//   request  closed from the start                   open until COMPLETE, ERROR or our CANCEL
//   channel  open until our COMPLETE or their CANCEL open until COMPLETE
// An ERROR from either side and our CANCEL close both. The stream is removed when both are closed.

import Bytes

final class RSocketStream: NumberedStream {
    enum Kind {
        /// At most one answer; no credit is involved.
        case response
        case stream
        case channel
    }

    /// What the other side sends.
    enum Answers {
        case messages
        /// Sequences of published messages, as many as were requested.
        case acknowledgements
        /// Sequences of published messages; each sequence that arrives is answered with a request for another.
        case allAcknowledgements
    }

    let id: StreamID
    let kind: Kind
    let answers: Answers

    /// Messages that the broker may still send.
    private var demand: Allowance
    /// Items that we may still send on a channel.
    private(set) var credit = Allowance(0)
    private(set) var sends: Bool
    private(set) var receives = true

    /// Whether the first message is the opening.
    var awaitsOpening = false
    /// Whether the stream is a subscription to a pattern, whose messages name their topics.
    var isOfPattern = false
    /// Whether fragments of a message have arrived, but not the last one.
    var isAssembling = false
    var hasMetadata = false
    var metadata = ByteBuffer()
    var data = ByteBuffer()

    init(id: StreamID, kind: Kind, demand: UInt32, sends: Bool, answers: Answers = .messages) {
        self.id = id
        self.kind = kind
        self.answers = answers
        self.demand = Allowance(demand)
        self.sends = sends
    }

    var isOver: Bool { !sends && !receives }
    var assembled: Int { metadata.count + data.count }

    /// Outstanding demand, at most 2³¹−1, which means unbounded.
    var outstanding: UInt32 { demand.shown }

    func ask(_ n: UInt32) { demand.add(UInt64(n)) }

    /// Uses credit for a message that has arrived. Returns false if the message was not requested.
    func receiveMessage() -> Bool { demand.take() }

    func grant(_ n: UInt32) {
        if sends { credit.add(UInt64(n)) }
    }

    /// Takes one credit for an item. Returns false if there is none.
    func useCredit() -> Bool { sends && credit.take() }

    func endSending() {
        sends = false
        credit.removeAll()
    }

    func endReceiving() { receives = false }

    func discardFragments() {
        isAssembling = false
        hasMetadata = false
        metadata.removeAll()
        data.removeAll()
        metadata.shrink(above: 4096)
        data.shrink(above: 64 << 10)
    }
}
