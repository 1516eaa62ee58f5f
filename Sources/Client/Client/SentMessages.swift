// SentMessages: what a publisher has sent and the broker has not acknowledged, over any number of connections, to be
// sent again when one was lost. No I/O.
//
//     take() ──▶ next ──sent()──▶ on its way ──accept()──▶ acknowledged
//                  ▲                  │
//                  └──────lost()──────┘

/// The messages of one publisher, each with a number from 1.
public struct SentMessages {
    /// Their payloads are kept until they are acknowledged; otherwise they can be made again from their numbers.
    private let keepsPayloads: Bool
    /// Payloads of those after `acknowledged`; those before `head` are empty.
    private var payloads: [[UInt8]] = []
    private var head = 0
    /// Bytes of payloads that are kept.
    public private(set) var bytes = 0
    /// Messages there have been so far.
    public private(set) var taken: UInt64 = 0
    public private(set) var acknowledged: UInt64 = 0
    /// Those acknowledged on connections before, and those sent on this one.
    private var before: UInt64 = 0
    private var here: UInt64 = 0

    public init(keepsPayloads: Bool) { self.keepsPayloads = keepsPayloads }

    /// Messages that were sent, of this or a lost connection, and are not acknowledged.
    public var unacknowledged: UInt64 { taken - acknowledged }

    /// The number of the message to be sent next; nil when all that were taken are sent on this connection.
    public var next: UInt64? { before + here < taken ? before + here + 1 : nil }

    /// The payload of the message to be sent next; empty where none are kept.
    public var payload: [UInt8] {
        let place = head + Int(before + here - acknowledged)
        return place < payloads.count ? payloads[place] : []
    }

    /// There is another message, to be sent behind the others.
    public mutating func take(_ payload: UnsafeRawBufferPointer) {
        taken += 1
        guard keepsPayloads else { return }
        payloads.append(Array(payload))
        bytes += payload.count
    }

    /// `next` was sent.
    public mutating func sent() { if before + here < taken { here += 1 } }

    /// The broker tells how many of those sent on this connection it has accepted.
    public mutating func accept(_ count: UInt64) {
        let total = before + min(count, here)
        guard total > acknowledged else { return }
        if keepsPayloads { drop(Int(total - acknowledged)) }
        acknowledged = total
    }

    /// It has accepted all of them.
    public mutating func acceptAll() { accept(here) }

    /// The connection was lost: what is not acknowledged is to be sent again. Returns how many of these were sent
    /// before.
    public mutating func lost() -> UInt64 {
        let repeated = before + here - acknowledged
        before = acknowledged
        here = 0
        return repeated
    }

    private mutating func drop(_ count: Int) {
        for place in head..<head + count {
            bytes -= payloads[place].count
            payloads[place] = []
        }
        head += count
        if head >= 64, head > payloads.count / 2 {
            payloads.removeFirst(head)
            head = 0
        }
    }
}
