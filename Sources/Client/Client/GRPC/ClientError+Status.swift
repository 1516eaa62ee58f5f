// ClientError+Status: maps failures of gRPC calls and HTTP/2 streams to the same errors as over RSocket.

import ForebayWire
import HTTP2

extension ClientError {
    /// The error for a status other than OK.
    init(_ outcome: CallOutcome) {
        let code: Code =
            switch outcome.status {
            case .invalidArgument: .invalid
            case .aborted: .applicationError
            case .resourceExhausted:
                ErrorWord(beginning: outcome.message) == .overflow ? .applicationError : .rejected
            case .notFound, .alreadyExists, .permissionDenied, .unauthenticated, .failedPrecondition,
                .deadlineExceeded:
                .rejected
            case .unavailable: .unavailable
            case .cancelled: .canceled
            case .ok, .unknown, .outOfRange, .unimplemented, .internal, .dataLoss: .otherStatus(outcome.status.name)
            }
        self.init(code, outcome.message)
    }

    /// The error for a stream that ended with RST_STREAM (gRPC over HTTP/2, "HTTP2 Transport Mapping, Errors").
    init(reset code: HTTP2Code) {
        switch code {
        case .refusedStream:
            self.init(.rejected, "The broker accepts no more streams on this connection; try again later.")
        case .cancel: self.init(.canceled, "The broker canceled the call.")
        case .enhanceYourCalm:
            self.init(.rejected, "The broker ended the call because it requested or returned too much.")
        default: self.init(.otherStatus("INTERNAL"), "The stream was reset with HTTP/2 error \(code.rawValue).")
        }
    }
}
