// Refusals in HTTP: a gRPC status, or a problem of plain HTTP.

import HTTP2

extension Refusal {
    /// The gRPC status.
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

    /// The problem of plain HTTP, for a response that has not begun.
    public var problem: Problem {
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

extension ConnectionRefusal {
    /// The problem of plain HTTP.
    public var problem: Problem {
        switch self {
        case .connections, .connectionsPerAddress, .files: Problem(.tooManyConnections, message)
        case .draining: Problem(.draining, message)
        }
    }
}

extension RefusalReason {
    init(_ problem: Problem.Kind) {
        switch problem {
        case .unauthenticated: self = .unauthenticated
        case .forbidden, .foreignOrigin, .foreignHost: self = .forbidden
        case .notFound: self = .notFound
        case .timeout: self = .timeout
        case .topicEnded: self = .ended
        case .gap: self = .gap
        case .tooLarge, .targetTooLong, .headersTooLarge: self = .tooLarge
        case .overLimit, .tooManyConnections: self = .limit
        case .draining, .busy: self = .unavailable
        case .blocked: self = .blocked
        case .invalid, .methodNotAllowed, .notAcceptable, .expectationFailed, .internalError, .httpVersion:
            self = .invalid
        }
    }

    init(_ status: GRPCStatus) {
        switch status {
        case .unauthenticated: self = .unauthenticated
        case .permissionDenied: self = .forbidden
        case .notFound: self = .notFound
        case .deadlineExceeded: self = .timeout
        case .resourceExhausted: self = .limit
        case .unavailable: self = .unavailable
        default: self = .invalid
        }
    }
}
