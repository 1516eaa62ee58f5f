// SentMessages: the messages that a publisher has sent but the broker has not acknowledged, over any number of
// connections. These messages are sent again after a connection is lost. No I/O.
//
//     take() ──▶ next ──sent()──▶ in flight ──accept()──▶ acknowledged
//                  ▲                  │
//                  └──────lost()──────┘

/// The messages of one publisher, numbered from 1.
public struct SentMessages {
    /// Whether payloads are kept until they are acknowledged; otherwise they can be recreated from their numbers.
    private let keepsPayloads: Bool
    /// Payloads after `acknowledged`; those before `head` are empty.
    private var payloads: [[UInt8]] = []
    private var head = 0
    /// Bytes of the kept payloads.
    public private(set) var bytes = 0
    /// Number of messages so far.
    public private(set) var taken: UInt64 = 0
    public private(set) var acknowledged: UInt64 = 0
    /// Messages acknowledged on earlier connections, and messages sent on this one.
    private var before: UInt64 = 0
    private var here: UInt64 = 0

    public init(keepsPayloads: Bool) { self.keepsPayloads = keepsPayloads }

    /// Messages not acknowledged, including those not sent yet.
    public var unacknowledged: UInt64 { taken - acknowledged }

    /// The number of the message to send next; nil if all have been sent on this connection.
    public var next: UInt64? { before + here < taken ? before + here + 1 : nil }

    /// The payload of the message to send next; empty if payloads are not kept.
    public var payload: [UInt8] {
        let place = head + Int(before + here - acknowledged)
        return place < payloads.count ? payloads[place] : []
    }

    /// Adds a message, to be sent after the others.
    public mutating func take(_ payload: UnsafeRawBufferPointer) {
        taken += 1
        guard keepsPayloads else { return }
        payloads.append(Array(payload))
        bytes += payload.count
    }

    /// Notes that `next` has been sent.
    public mutating func sent() { if before + here < taken { here += 1 } }

    /// Takes the broker's report of how many of the messages sent on this connection it has accepted.
    public mutating func accept(_ count: UInt64) {
        let total = before + min(count, here)
        guard total > acknowledged else { return }
        if keepsPayloads { drop(Int(total - acknowledged)) }
        acknowledged = total
    }

    /// Notes that the broker has accepted all messages sent on this connection.
    public mutating func acceptAll() { accept(here) }

    /// Makes unacknowledged messages be sent again, because the connection was lost. Returns how many of them had been
    /// sent.
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
