// ClientError: what can go wrong between a client and a broker, and whether the stream or the connection dies of it.

import ForebayWire

/// A failure, with a sentence that tells the person what happened and, where there is something to do, what to do.
public struct ClientError: Error, Equatable, Sendable {
    public enum Code: Equatable, Sendable {
        // The stream alone dies.
        /// A failed topic, an overflow: ERROR[APPLICATION_ERROR], or ABORTED and RESOURCE_EXHAUSTED of gRPC.
        case applicationError
        /// Not allowed, ended topic, over a limit: ERROR[REJECTED], or most of gRPC's statuses.
        case rejected
        /// The broker is shutting down: ERROR[REJECTED] that begins so, or UNAVAILABLE. Connect again later.
        case unavailable
        /// ERROR[CANCELED], CANCELLED.
        case canceled
        /// A bad name or option: ERROR[INVALID], INVALID_ARGUMENT.
        case invalid
        /// An ERROR with a code that the protocol profile does not use.
        case otherStreamError(UInt32)
        /// A message larger than this client's limit on reassembly.
        case messageTooLarge
        /// A gRPC status that the protocol profile does not use, by its name.
        case otherStatus(String)
        /// The broker sent more messages on a stream than were requested.
        case overdelivered
        /// The broker's answer on a stream makes no sense.
        case badAnswer

        // The connection dies.
        /// The address does not name a broker that this version can talk to.
        case badURL
        /// The credentials are such that no broker takes them.
        case badCredentials
        /// The name was not found, or nobody answered there.
        case notConnected
        /// A file with certificates or a key cannot be used.
        case badFile
        /// The broker's certificate is not trusted.
        case untrusted
        /// The broker's certificate is for another host.
        case wrongHost
        /// The broker's certificate has ended, or is not valid yet.
        case outdated
        /// The broker refused the set-up.
        case setupRejected
        /// The broker ended the connection and said why: ERROR[CONNECTION_ERROR] or ERROR[CONNECTION_CLOSE], GOAWAY.
        case connectionError
        /// What arrived is not RSocket, or not HTTP/2 with gRPC, or not allowed in it.
        case protocolViolation
        /// The connection ended without a word.
        case lost
        /// Nothing arrived for the connection's lifetime.
        case silent
    }

    public var code: Code
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The word that the broker's error text begins with; nil if it is not the broker's.
    public var word: ErrorWord? { isReportedByBroker ? ErrorWord(beginning: message) : nil }

    /// The connection dies of it, not one stream alone.
    public var endsConnection: Bool {
        switch code {
        case .applicationError, .rejected, .unavailable, .canceled, .invalid, .otherStreamError, .otherStatus,
            .messageTooLarge, .overdelivered, .badAnswer:
            false
        default: true
        }
    }

    /// The broker does not take the credentials, or wants some. To try them again would be one more attempt to guess a
    /// password.
    public var refusesCredentials: Bool {
        code == .setupRejected && word == .unauthenticated
    }

    /// The broker said so itself; otherwise this side, or the network, came to it.
    public var isReportedByBroker: Bool {
        switch code {
        case .applicationError, .rejected, .unavailable, .canceled, .invalid, .otherStreamError, .otherStatus,
            .setupRejected, .connectionError:
            true
        default: false
        }
    }
}

extension ClientError.Code {
    /// A word for programs.
    public var name: String {
        switch self {
        case .applicationError: "application-error"
        case .rejected: "rejected"
        case .unavailable: "unavailable"
        case .canceled: "canceled"
        case .invalid: "invalid"
        case .otherStreamError: "stream-error"
        case .messageTooLarge: "message-too-large"
        case .otherStatus: "status"
        case .overdelivered: "overdelivered"
        case .badAnswer: "bad-answer"
        case .badURL: "bad-url"
        case .badCredentials: "bad-credentials"
        case .notConnected: "not-connected"
        case .badFile: "bad-file"
        case .untrusted: "untrusted"
        case .wrongHost: "wrong-host"
        case .outdated: "untrusted"
        case .setupRejected: "setup-rejected"
        case .connectionError: "connection-error"
        case .protocolViolation: "protocol-violation"
        case .lost: "lost"
        case .silent: "silent"
        }
    }

    /// The meaning of an ERROR's code on a stream (RSocket, "Error Codes"), and of its text, where that decides.
    init(stream code: UInt32, _ text: String) {
        switch code {
        case 0x202 where [.draining, .unavailable].contains(ErrorWord(beginning: text)): self = .unavailable
        case 0x201: self = .applicationError
        case 0x202: self = .rejected
        case 0x203: self = .canceled
        case 0x204: self = .invalid
        default: self = .otherStreamError(code)
        }
    }
}

extension ClientError {
    /// What answers speaks HTTP/1.1 where something else was expected. Brokers then say what to do, in a line.
    init(http1 answer: UnsafeRawBufferPointer, insteadOf expected: String) {
        let text = String(decoding: answer.prefix(1024), as: UTF8.self)
        var message = "What answers speaks HTTP/1.1, not \(expected): is it the right port?"
        if let end = text.firstRange(of: "\r\n\r\n") {
            let line = text[end.upperBound...].prefix { $0 != "\n" }
            let isSentence = line.allSatisfy { $0.isASCII && !$0.isNewline && $0 >= " " } && line.hasSuffix(".")
            if isSentence { message = "What answers says: \(line)" }
        }
        self.init(.protocolViolation, message)
    }
}
