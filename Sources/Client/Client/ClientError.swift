// ClientError: what can go wrong between a client and a broker, and whether it ends the stream or the connection.

import ForebayWire

/// An error with a sentence for the user: what happened and, if possible, what to do.
public struct ClientError: Error, Equatable, Sendable {
    public enum Code: Equatable, Sendable {
        // Errors that end only the stream.
        /// The topic failed, or the subscription overflowed: ERROR[APPLICATION_ERROR], or ABORTED and
        /// RESOURCE_EXHAUSTED of gRPC.
        case applicationError
        /// The request is not allowed, the topic has ended, or a limit is exceeded: ERROR[REJECTED], or most of gRPC's
        /// statuses.
        case rejected
        /// The broker is shutting down: ERROR[REJECTED] with that text, or UNAVAILABLE. Connect again later.
        case unavailable
        /// ERROR[CANCELED], CANCELLED.
        case canceled
        /// An invalid name or option: ERROR[INVALID], INVALID_ARGUMENT.
        case invalid
        /// An ERROR with a code that the protocol profile does not use.
        case otherStreamError(UInt32)
        /// A message larger than this client's limit on reassembly.
        case messageTooLarge
        /// A gRPC status that the protocol profile does not use, by name.
        case otherStatus(String)
        /// The broker sent more messages on a stream than were requested.
        case overdelivered
        /// The broker's answer on a stream is malformed.
        case badAnswer

        // Errors that end the connection.
        /// The address does not name a broker that this version supports.
        case badURL
        /// No broker would accept the credentials.
        case badCredentials
        /// The name was not found, or nothing answered there.
        case notConnected
        /// A file with certificates or a key cannot be used.
        case badFile
        /// The broker's certificate is not trusted.
        case untrusted
        /// The broker's certificate is for another host.
        case wrongHost
        /// The broker's certificate has expired or is not valid yet.
        case outdated
        /// The broker rejected SETUP.
        case setupRejected
        /// The broker ended the connection with a reason: ERROR[CONNECTION_ERROR], ERROR[CONNECTION_CLOSE] or GOAWAY.
        case connectionError
        /// What arrived is not RSocket, or not HTTP/2 with gRPC, or violates the protocol.
        case protocolViolation
        /// The connection ended without a reason.
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

    /// The word that the broker's error text begins with; nil if the error is not the broker's.
    public var word: ErrorWord? { isReportedByBroker ? ErrorWord(beginning: message) : nil }

    /// Whether the error ends the connection, not only one stream.
    public var endsConnection: Bool {
        switch code {
        case .applicationError, .rejected, .unavailable, .canceled, .invalid, .otherStreamError, .otherStatus,
            .messageTooLarge, .overdelivered, .badAnswer:
            false
        default: true
        }
    }

    /// Whether the broker rejects the credentials or requires some. Retrying with the same credentials would count as
    /// an attempt to guess a password.
    public var refusesCredentials: Bool {
        code == .setupRejected && word == .unauthenticated
    }

    /// Whether another broker would fail the client in the same way: its credentials or files are wrong.
    public var concernsAllBrokers: Bool { refusesCredentials || code == .badFile || code == .badCredentials }

    /// Whether the broker refused the client or its request without doing anything, so that another broker can be
    /// asked.
    public var isRefusal: Bool {
        switch code {
        case .unavailable: !isOutcomeUnknown
        case .setupRejected: !refusesCredentials
        default: false
        }
    }

    /// Whether the broker does not know if a message was published.
    public var isOutcomeUnknown: Bool {
        code == .unavailable && message.hasPrefix(ErrorWord.unavailable.text("outcome unknown"))
    }

    /// Whether the broker reported the error itself; otherwise this side detected it.
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
    /// A name for use by programs.
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

    /// The meaning of an ERROR's code on a stream (RSocket, "Error Codes"), and of its text if that decides.
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
    /// The peer speaks HTTP/1.1 where another protocol was expected. Brokers then say what to do, in one line.
    init(http1 answer: UnsafeRawBufferPointer, insteadOf expected: String) {
        let text = String(decoding: answer.prefix(1024), as: UTF8.self)
        var message = "The server speaks HTTP/1.1, not \(expected); check the port."
        if let end = text.firstRange(of: "\r\n\r\n") {
            let line = text[end.upperBound...].prefix { $0 != "\n" }
            let isSentence = line.allSatisfy { $0.isASCII && !$0.isNewline && $0 >= " " } && line.hasSuffix(".")
            if isSentence { message = "The server answered: \(line)" }
        }
        self.init(.protocolViolation, message)
    }
}
