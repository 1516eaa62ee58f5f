// Refusal: why a request, or a stream, comes to nothing. Each protocol has its own code for it.

/// What is wrong with a request: an ERROR on its stream, the status of its call.
public struct Refusal: Error, Sendable {
    typealias Kind = RefusalReason

    var kind: Kind
    var message: String
    /// Seconds after which to try again, where that is known.
    var retryAfter: Int?
    /// The limit that stands behind it, where that matters to those who count.
    var limit: LimitReached?

    init(_ kind: Kind, _ message: String, retryAfter: Int? = nil) {
        self.kind = kind
        self.message = message
        self.retryAfter = retryAfter
    }

    /// It is too early to look at credentials again.
    var isSlowing: Bool { kind == .limit && retryAfter != nil }

    static func invalid(_ message: String) -> Refusal { Refusal(.invalid, message) }
    static func rejected(_ message: String) -> Refusal { Refusal(.limit, message) }

    static var draining: Refusal { Refusal(.unavailable, "The broker is shutting down; connect again later.") }

    /// Of a message, when all of a connection's that are not complete need more than `limit` bytes.
    static func unfinished(limit: Int) -> Refusal {
        rejected("The connection's unfinished messages need more than \(limit) bytes: send fewer at a time.")
    }
}
