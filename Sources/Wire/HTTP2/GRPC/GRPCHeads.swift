// GRPCHeads: the headers and trailers of a response (gRPC over HTTP/2, "Responses").

/// Why a subscription ended, sent in the trailer `forebay-end`.
public enum SubscriptionEnd: String, Sendable {
    /// The topic completed: OK.
    case completed
    /// The topic failed: ABORTED.
    case failed
    /// RESOURCE_EXHAUSTED, with a text that begins `overflow:`.
    case overflow
    /// The client half-closed, and all requested messages have been delivered: OK.
    case creditSpent = "credit-spent"
}

/// Lists of headers to send, with names in lower case.
public enum GRPCHeads {
    /// The message encodings that the broker accepts. Sent with every response; gRPC requires it when one was refused.
    static let accepted: (name: String, value: String) = ("grpc-accept-encoding", "identity")

    /// The headers before the first message.
    public static let response: [(name: String, value: String)] = [
        (":status", "200"), ("content-type", "application/grpc"), accepted,
    ]

    /// The trailers of a response.
    ///
    /// - Parameters:
    ///   - message: any text, unencoded; left out if empty.
    ///   - end: for a subscription: why it ended.
    ///   - dropped: for a subscription: messages lost after the last response; left out if 0.
    public static func trailers(
        _ status: GRPCStatus, _ message: String = "", end: SubscriptionEnd? = nil, dropped: UInt64 = 0
    ) -> [(name: String, value: String)] {
        var list = [(name: "grpc-status", value: String(status.rawValue))]
        if !message.isEmpty { list.append(("grpc-message", GRPCMessageText.encode(message))) }
        if let end { list.append(("forebay-end", end.rawValue)) }
        if dropped > 0 { list.append(("forebay-dropped", String(dropped))) }
        return list
    }

    /// The trailers of a response that ends with an error.
    public static func trailers(_ error: GRPCError) -> [(name: String, value: String)] {
        trailers(error.status, error.message)
    }

    /// The headers of a response without messages: the call is refused before its first message.
    public static func trailersOnly(_ error: GRPCError) -> [(name: String, value: String)] {
        response + trailers(error)
    }

    /// Like `trailersOnly(_:)`, with a subscription's trailers.
    public static func trailersOnly(
        _ status: GRPCStatus, _ message: String = "", end: SubscriptionEnd? = nil, dropped: UInt64 = 0
    ) -> [(name: String, value: String)] {
        response + trailers(status, message, end: end, dropped: dropped)
    }
}
