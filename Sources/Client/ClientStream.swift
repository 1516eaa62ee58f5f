// ClientStream: what a connection knows of one stream: both credits, which halves are open, an unfinished message.
//
//            requester's half (what we send)         responder's half (what we receive)
//   request  closed from the start                   open until COMPLETE, ERROR or our CANCEL
//   channel  open until our COMPLETE or their CANCEL open until COMPLETE
//   An ERROR of either side, and our CANCEL, close both. When both are closed the stream is forgotten.

import Bytes

final class ClientStream {
    enum Kind {
        /// One answer at most; credit does not exist.
        case response
        case stream
        case channel
    }

    let id: StreamID
    let kind: Kind

    /// Messages that the broker may still send; `unlimited` is unbounded.
    private var demand: UInt64
    /// Items that we may still send on a channel.
    private(set) var credit: UInt64 = 0
    private(set) var sends: Bool
    private(set) var receives = true

    /// Fragments of a message whose end has not arrived.
    var isAssembling = false
    var hasMetadata = false
    var metadata = ByteBuffer()
    var data = ByteBuffer()

    private static let unlimited = UInt64(Refill.unbounded)

    init(id: StreamID, kind: Kind, demand: UInt32, sends: Bool) {
        self.id = id
        self.kind = kind
        self.demand = UInt64(demand)
        self.sends = sends
    }

    var isOver: Bool { !sends && !receives }
    var assembled: Int { metadata.count + data.count }

    /// Outstanding demand, at most 2³¹−1, which is unbounded.
    var outstanding: UInt32 { UInt32(demand) }

    /// Demand adds up and latches at 2³¹−1, which stands for unbounded.
    func ask(_ n: UInt32) { demand = min(demand + UInt64(n), Self.unlimited) }

    /// One message arrived; false when it was not asked for.
    func receiveMessage() -> Bool {
        if demand == 0 { return false }
        if demand != Self.unlimited { demand -= 1 }
        return true
    }

    func grant(_ n: UInt32) {
        guard sends else { return }
        credit = min(credit + UInt64(n), Self.unlimited)
    }

    /// Takes one credit for an item; false when there is none.
    func useCredit() -> Bool {
        guard sends, credit > 0 else { return false }
        if credit != Self.unlimited { credit -= 1 }
        return true
    }

    func endSending() {
        sends = false
        credit = 0
    }

    func endReceiving() { receives = false }

    func forgetFragments() {
        isAssembling = false
        hasMetadata = false
        metadata.removeAll()
        data.removeAll()
        metadata.shrink(above: 4096)
        data.shrink(above: 64 << 10)
    }
}
