// Refusal: why a request, or a stream, comes to nothing. Each protocol has its own code for it.

import HTTP2
import RSocket

/// What is wrong with a request: an ERROR on its stream, the status of its call.
struct Refusal: Error, Sendable {
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

    init(_ error: RSocketError) {
        let kind: Kind =
            switch error.code {
            case .invalid: .invalid
            case .connectionClose, .connectionError: .unavailable
            default: .limit
            }
        self.init(kind, error.message)
    }

    /// It is too early to look at credentials again.
    var isSlowing: Bool { kind == .limit && retryAfter != nil }

    static func invalid(_ message: String) -> Refusal { Refusal(.invalid, message) }
    static func rejected(_ message: String) -> Refusal { Refusal(.limit, message) }

    /// Of a message, when all of a connection's that are not complete need more than `limit` bytes.
    static func unfinished(limit: Int) -> Refusal {
        rejected("The connection's unfinished messages need more than \(limit) bytes: send fewer at a time.")
    }

    /// RSocket's.
    var code: ErrorCode {
        switch kind {
        case .invalid: .invalid
        case .topicFailed, .overflow: .applicationError
        case .limit, .beyondCredit, .tooLarge, .blocked, .timeout, .ended, .notFound, .unauthenticated, .forbidden,
            .gap, .unavailable, .cutOff:
            .rejected
        }
    }

    /// gRPC's.
    var status: GRPCStatus {
        switch kind {
        case .invalid: .invalidArgument
        case .limit, .tooLarge, .blocked, .overflow: .resourceExhausted
        case .timeout: .deadlineExceeded
        case .beyondCredit, .ended, .gap: .failedPrecondition
        case .notFound: .notFound
        case .unauthenticated: .unauthenticated
        case .forbidden: .permissionDenied
        case .unavailable: .unavailable
        case .topicFailed, .cutOff: .aborted
        }
    }

    /// Plain HTTP's, where no stream has begun.
    var problem: Problem {
        let kind: Problem.Kind =
            switch kind {
            case .invalid: .invalid
            case .limit, .beyondCredit, .overflow: .overLimit
            case .tooLarge: .tooLarge
            case .blocked: .blocked
            case .timeout: .timeout
            case .ended, .topicFailed: .topicEnded
            case .notFound: .notFound
            case .unauthenticated: .unauthenticated
            case .forbidden, .cutOff: .forbidden
            case .gap: .gap
            case .unavailable: .draining
            }
        return Problem(kind, message, retryAfter: retryAfter)
    }
}
