// Refusals in HTTP: a gRPC status, or the `Problem` with which plain HTTP answers.

import HTTP2

extension Refusal {
    /// The gRPC status.
    var status: GRPCStatus {
        if endsConnection { return .unavailable }
        return switch word {
        case .invalid: .invalidArgument
        case .unsupported: .unimplemented
        case .protocol: .internal
        case .limit, .tooLarge, .blocked, .overflow, .store: .resourceExhausted
        case .timeout: .deadlineExceeded
        case .credit, .ended, .gap, .publisher: .failedPrecondition
        case .notFound: .notFound
        case .unauthenticated: .unauthenticated
        case .forbidden: .permissionDenied
        case .draining, .unavailable: .unavailable
        case .topicFailed, .closedByOperator: .aborted
        }
    }

    var grpcError: GRPCError { GRPCError(status, word: word, sentence) }

    /// The `Problem` with which plain HTTP answers, for a response that has not begun.
    public var problem: Problem {
        if endsConnection { return Problem(.unavailable, word: word, sentence) }
        let kind: Problem.Kind =
            switch word {
            case .invalid, .unsupported, .protocol: .invalid
            case .limit, .credit, .overflow: .limit
            case .tooLarge: .tooLarge
            case .blocked: .blocked
            case .timeout: .timeout
            case .ended, .topicFailed: .ended
            case .publisher: .publisher
            case .notFound: .notFound
            case .unauthenticated: .unauthenticated
            case .forbidden, .closedByOperator: .forbidden
            case .gap: .gap
            case .draining: .draining
            case .unavailable: .unavailable
            case .store: .store
            }
        return Problem(kind, word: word, sentence, retryAfter: retryAfter)
    }
}

extension ConnectionRefusal {
    /// The `Problem` with which plain HTTP answers.
    public var problem: Problem {
        let kind: Problem.Kind =
            switch self {
            case .connections, .connectionsPerAddress: .tooManyConnections
            case .files: .unavailable
            case .draining: .draining
            }
        return Problem(kind, word: word, sentence)
    }
}
