// ForebayError: what can go wrong between a program and its broker.

import Client
import Foundation

/// An error, with a message that says what happened and, if possible, what to do.
public struct ForebayError: LocalizedError, Equatable, Sendable, CustomStringConvertible {
    /// What went wrong, for the program's decisions.
    public enum Code: Equatable, Sendable {
        // Ends one stream or one publish.
        /// The topic was failed or deleted.
        case topicFailed
        /// The overflow policy ended the subscription: `.fail`, or `.block` with a buffer that was full for too long.
        case overflow
        /// The broker does not allow the operation: the topic has ended, or one of the broker's limits is reached.
        case rejected
        /// The broker does not accept a name or an option.
        case invalid
        /// A message is larger than this client's limit: `ForebayOptions.Limits.message` for a received one,
        /// `publishedBytes` for a published one. A message that is too large for the broker is `.invalid`.
        case messageTooLarge
        /// The connection was lost before the broker answered, so the broker may or may not have accepted what was
        /// published.
        case outcomeUnknown
        /// A publication was ended by `Publication.cancel()`. A cancelled task throws `CancellationError` instead.
        case cancelled
        /// The client is doing as much as `ForebayOptions.Limits` allows: wait until something has ended.
        case busy
        /// The published publisher failed, or broke the rules of publishers.
        case upstreamFailed
        /// The broker's response violates the protocol.
        case protocolViolation

        // Ends the client: all its activities fail with the same error.
        /// The address does not name a broker that this version can talk to.
        case badAddress
        /// A file named in `ForebayOptions.TLS` cannot be used.
        case badFile
        /// The broker's certificate is not trusted, or is for a different host.
        case untrusted
        /// The broker refuses the client: its credentials or its certificate are missing or invalid, a limit on
        /// connections is reached, or the broker is shutting down.
        case refused
        /// No connection was established, or reconnecting failed as often as the options allow.
        case notConnected
        /// The client was closed.
        case closed
        /// The operating system refused an essential resource: a thread or a descriptor.
        case system
    }

    /// What went wrong, for the program's decisions.
    public var code: Code
    /// What happened and what to do, as text for the user.
    public var message: String
    /// The number of messages that the broker had accepted when a publication failed; otherwise 0.
    public var acknowledged: UInt64 = 0

    /// The word that the broker's error began with, such as `limit`, `forbidden` or `gap`, for programs to act on. Nil
    /// if the broker did not report the failure.
    public var reason: String?

    /// An error with this code and message.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }

    /// The message, also returned by `localizedDescription`.
    public var errorDescription: String? { message }

    /// Whether this error ends the client, so a new one has to be connected. The error of
    /// ``ConnectionState/reconnecting(after:_:)`` says why a connection was lost, and ends nothing.
    public var endsClient: Bool {
        switch code {
        case .badAddress, .badFile, .untrusted, .refused, .notConnected, .closed, .system: true
        default: false
        }
    }
}

extension ForebayError {
    /// The failure of a publisher passed to `publish(to:)`, with its own description.
    init(upstream error: any Error) {
        let text = (error as? any LocalizedError)?.errorDescription ?? "\(error)"
        self.init(.upstreamFailed, "The publisher failed: \(text)")
    }

    /// The error that ended a stream.
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

    /// Why no connection was established.
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
    static let cancelledByUser = ForebayError(.cancelled, "The operation was cancelled by this program.")
}
