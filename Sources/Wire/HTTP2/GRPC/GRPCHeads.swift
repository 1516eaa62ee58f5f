// The headers and trailers of an answer (gRPC over HTTP/2, "Responses").

/// Why a subscription ended, as the trailer `forebay-end` tells it.
public enum SubscriptionEnd: String, Sendable {
    /// The topic completed: OK.
    case completed
    /// The topic failed: ABORTED.
    case failed
    /// RESOURCE_EXHAUSTED, with a text that begins `overflow:`.
    case overflow
    /// The client half-closed, and what it asked for is delivered: OK.
    case creditSpent = "credit-spent"
}

/// Lists of headers to send, names in lower case.
public enum GRPCHeads {
    /// Codings of messages that the broker takes. It is told with every answer, as gRPC asks where one was refused.
    static let accepted: (name: String, value: String) = ("grpc-accept-encoding", "identity")

    /// What comes before the first message.
    public static let response: [(name: String, value: String)] = [
        (":status", "200"), ("content-type", "application/grpc"), accepted,
    ]

    /// What ends an answer.
    ///
    /// - Parameters:
    ///   - message: any text; it is encoded here. Empty, it is left out.
    ///   - end: of a subscription: why it ended.
    ///   - dropped: of a subscription: messages lost after the last response; 0 is left out.
    public static func trailers(
        _ status: GRPCStatus, _ message: String = "", end: SubscriptionEnd? = nil, dropped: UInt64 = 0
    ) -> [(name: String, value: String)] {
        var list = [(name: "grpc-status", value: String(status.rawValue))]
        if !message.isEmpty { list.append(("grpc-message", GRPCMessageText.encode(message))) }
        if let end { list.append(("forebay-end", end.rawValue)) }
        if dropped > 0 { list.append(("forebay-dropped", String(dropped))) }
        return list
    }

    /// What ends an answer with an error.
    public static func trailers(_ error: GRPCError) -> [(name: String, value: String)] {
        trailers(error.status, error.message)
    }

    /// Headers that are the whole answer: the call is refused before its first message.
    public static func trailersOnly(_ error: GRPCError) -> [(name: String, value: String)] {
        response + trailers(error)
    }

    /// As `trailersOnly(_:)`, with a subscription's trailers.
    public static func trailersOnly(
        _ status: GRPCStatus, _ message: String = "", end: SubscriptionEnd? = nil, dropped: UInt64 = 0
    ) -> [(name: String, value: String)] {
        response + trailers(status, message, end: end, dropped: dropped)
    }
}
