// Refusals in RSocket: an ERROR's code, and refusals by the protocol's own state machine.

import RSocket

extension Refusal {
    init(_ error: RSocketError) {
        self.init(error.word, error.sentence)
    }

    /// The code of RSocket's ERROR frame.
    var code: ErrorCode {
        switch word {
        case .invalid: .invalid
        case .topicFailed, .overflow: .applicationError
        case .unsupported, .protocol, .unauthenticated, .forbidden, .notFound, .limit, .tooLarge, .credit, .blocked,
            .timeout, .ended, .gap, .draining, .unavailable, .closedByOperator, .store, .publisher:
            .rejected
        }
    }
}

extension LimitReached {
    init?(_ bound: RSocketError.Bound?) {
        switch bound {
        case .payload: self = .payload
        case .metadata: self = .metadata
        case .streams: self = .streamsPerConnection
        case .reassembly: self = .reassembly
        case .reassemblyTime: self = .reassemblyTime
        case .memory: self = .memory
        case .keepaliveData: self = .keepaliveData
        case nil: return nil
        }
    }
}

extension PublishLoss {
    /// Why an incomplete message is lost: the broker is short of memory, or the connection has too much to reassemble.
    /// Nil if the message itself is at fault.
    init?(unfinished bound: RSocketError.Bound?) {
        switch bound {
        case .memory: self = .memory
        case .reassembly: self = .tooLarge
        default: return nil
        }
    }
}

extension RSocketError {
    init(_ fault: ConnectionFault) {
        let code: ErrorCode =
            switch fault.kind {
            case .rejectedSetup: .rejectedSetup
            case .invalidSetup: .invalidSetup
            case .closed: .connectionClose
            case .failed, .withdrawn: .connectionError
            }
        self.init(code: code, word: fault.word, sentence: fault.sentence, scope: .connection)
    }
}
