// Refusal: why a request or a stream fails. Each protocol has its own code for it.

/// What is wrong with a request: sent as an ERROR frame on its stream, or as the status of its call.
public struct Refusal: Error, Sendable {
    typealias Kind = RefusalReason

    var kind: Kind
    var message: String
    /// Seconds after which to try again, if known.
    var retryAfter: Int?
    /// The limit that was reached, for the statistics.
    var limit: LimitReached?

    init(_ kind: Kind, _ message: String, retryAfter: Int? = nil) {
        self.kind = kind
        self.message = message
        self.retryAfter = retryAfter
    }

    /// Credentials were sent again too early.
    var isSlowing: Bool { kind == .limit && retryAfter != nil }

    static func invalid(_ message: String) -> Refusal { Refusal(.invalid, message) }
    static func rejected(_ message: String) -> Refusal { Refusal(.limit, message) }

    static var draining: Refusal { Refusal(.unavailable, "The broker is shutting down; connect again later.") }

    /// Refuses a message because the connection's incomplete messages together need more than `limit` bytes.
    static func unfinished(limit: Int) -> Refusal {
        rejected("The connection's unfinished messages need more than \(limit) bytes: send fewer at a time.")
    }
}
