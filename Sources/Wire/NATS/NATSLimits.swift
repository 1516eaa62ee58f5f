// NATSLimits: the limits of one connection to a NATS server.

/// Limits of a connection; sizes are bytes and times nanoseconds unless the name says otherwise.
public struct NATSLimits: Sendable {
    /// A line from the server, without its line break; INFO has its own limit.
    public var maxControlLine = 4 << 10
    /// The line of INFO, which grows with the number of servers in a cluster.
    public var maxInfo = 64 << 10
    /// Headers and payload of a received message. May have to exceed the server's `max_payload`: servers add headers to
    /// stored messages, and keep messages from times when the limit was higher.
    public var maxMessage = 9 << 20
    /// Bytes that wait to be sent, headers and payloads included. A call that would exceed this limit throws.
    public var maxPending = 8 << 20
    /// Space beyond `maxPending` that is kept for PING and PONG. A server that sends more PINGs than that, and does not
    /// read the answers, loses the connection.
    public static let reserved = 4 << 10
    /// Memory for output that is kept while nothing waits to be sent.
    public static let keptOutput = 64 << 10

    /// The time from `opened` to `ready`.
    public var connectTime: UInt64 = 5_000_000_000
    /// The time between keepalive PINGs.
    public var pingInterval: UInt64 = 20_000_000_000
    /// Keepalive PINGs that may be unanswered when the next one is due; the connection then ends.
    public var maxUnansweredPings = 2

    /// URLs of other servers in INFO; more are ignored.
    public static let maxURLs = 64
    /// Header lines in one message.
    public static let maxHeaders = 1_024
    /// The header block of a message that is written; JetStream stores no more (nats-server, `math.MaxUint16`).
    public static let maxHeaderBlock = 65_535
    /// A line that is written, other than CONNECT: the default `max_control_line` of nats-server.
    public static let maxWrittenLine = 4 << 10
    /// Text of an -ERR; the rest is cut off.
    public static let maxErrorText = 1 << 10

    public init() {}
}
