// Refusal: why a request, or a stream, comes to nothing. Each protocol has its own code for it.

import HTTP2
import RSocket

/// What is wrong with a request: an ERROR on its stream, the status of its call.
struct Refusal: Error, Sendable {
    enum Kind: Sendable {
        /// A bad name, option or value.
        case invalid
        /// A limit is reached.
        case limit
        /// A message is larger than any may be.
        case tooLarge
        /// A publish found no room for too long.
        case blocked
        /// A request did not come to its end in time.
        case timeout
        /// A publisher sent more than it was granted.
        case beyondCredit
        /// The topic has ended.
        case ended
        case notFound
        /// It is not known who asks, or not any more.
        case unauthenticated
        /// Not for this peer, or not for any.
        case forbidden
        /// What was asked to begin with is not there any more.
        case gap
        /// The broker is shutting down.
        case unavailable
        /// The topic failed, and its subscriptions with it.
        case topicFailed
        /// The subscription's buffer, or the topic's log, was full.
        case overflow
    }

    var kind: Kind
    var message: String
    /// Seconds after which to try again, where that is known.
    var retryAfter: Int?

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
            .gap, .unavailable:
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
        case .topicFailed: .aborted
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
            case .forbidden: .forbidden
            case .gap: .gap
            case .unavailable: .draining
            }
        return Problem(kind, message, retryAfter: retryAfter)
    }
}
