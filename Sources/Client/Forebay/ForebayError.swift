// ForebayError: what can go wrong between a program and its broker.

import Client
import Foundation

/// A failure, with a sentence that tells the person what happened and, where there is something to do, what to do.
public struct ForebayError: LocalizedError, Equatable, Sendable, CustomStringConvertible {
    /// What went wrong, for a program to decide by.
    public enum Code: Equatable, Sendable {
        // One stream, or one publish, dies.
        /// The topic was failed or deleted.
        case topicFailed
        /// The subscription's own overflow policy ended it: `.fail`, or `.block` that was full for too long.
        case overflow
        /// The broker does not allow it: the topic has ended, or a limit of its own is reached.
        case rejected
        /// A name or an option makes no sense to the broker.
        case invalid
        /// A message is larger than this client's limit: `ForebayOptions.Limits.message` for one that came, and
        /// `publishedBytes` for one to be published. What the broker finds too large is `.invalid`.
        case messageTooLarge
        /// The connection was lost before the broker answered: it may have taken what was published, or not.
        case outcomeUnknown
        /// A publication was given up by `Publication.cancel()`. Of a task that is cancelled `CancellationError` tells.
        case cancelled
        /// More is under way on this client than `ForebayOptions.Limits` allows: wait for some of it to end.
        case busy
        /// The publisher that was published failed, or broke the rules of publishers.
        case upstreamFailed
        /// The broker's answer makes no sense.
        case protocolViolation

        // The client dies: everything that is under way on it fails with the same error.
        /// The address does not name a broker that this version can talk to.
        case badAddress
        /// A file that `ForebayOptions.TLS` names cannot be used.
        case badFile
        /// The broker's certificate is not trusted, or is not the broker's own.
        case untrusted
        /// The broker does not let the client in: its credentials or its certificate are missing or not right, a limit
        /// on connections is reached, or the broker is shutting down.
        case refused
        /// No connection came about, or none again within the attempts that the options allow.
        case notConnected
        /// The client was closed.
        case closed
        /// The operating system refused what the client cannot do without: a thread, or a descriptor.
        case system
    }

    /// What went wrong, for a program to decide by.
    public var code: Code
    /// What happened and what to do, for a person.
    public var message: String
    /// Messages of a publication that the broker had accepted before it failed; 0 elsewhere.
    public var acknowledged: UInt64 = 0

    /// The word that the broker's error began with, such as `limit`, `forbidden` or `gap`: the reason for a program to
    /// decide by. Nil if the broker did not report the failure.
    public var reason: String?

    /// A failure of this client's own.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }

    /// The message, which `localizedDescription` gives too.
    public var errorDescription: String? { message }

    /// The client is of no more use, and a new one has to be connected. The error of
    /// ``ConnectionState/reconnecting(after:_:)`` tells why a connection was lost, and ends nothing.
    public var endsClient: Bool {
        switch code {
        case .badAddress, .badFile, .untrusted, .refused, .notConnected, .closed, .system: true
        default: false
        }
    }
}

extension ForebayError {
    /// What a publisher that was published failed of, as it describes itself to people.
    init(upstream error: any Error) {
        let text = (error as? any LocalizedError)?.errorDescription ?? "\(error)"
        self.init(.upstreamFailed, "The publisher failed: \(text)")
    }

    /// What a stream died of.
    init(stream error: ClientError) {
        let code: Code =
            switch error.code {
            case .applicationError:
                error.word == .overflow ? .overflow : .topicFailed
            case .rejected, .unavailable, .canceled: .rejected
            case .invalid: .invalid
            case .messageTooLarge: .messageTooLarge
            default: .protocolViolation
            }
        self.init(code, error.message)
        reason = error.word?.text
    }

    /// Why no connection came about.
    init(connection error: ClientError) {
        let code: Code =
            switch error.code {
            case .badURL, .badCredentials: .badAddress
            case .badFile: .badFile
            case .untrusted, .wrongHost, .outdated: .untrusted
            case .setupRejected: .refused
            default: .notConnected
            }
        self.init(
            code, code == .refused ? "The broker refused the connection: \(error.message)" : error.message)
        reason = error.word?.text
    }

    static let closedByUser = ForebayError(.closed, "The client was closed.")
    static let cancelledByUser = ForebayError(.cancelled, "It was cancelled by this program.")
}
