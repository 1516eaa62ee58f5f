// ConnectionRefusal: why an accepted connection is not served. The driver reports it to the client in the listener's
// protocol and closes the connection.

import Bytes
import ForebayWire

/// Why a connection is refused before anything has been read from it.
public enum ConnectionRefusal: Error, Equatable, Sendable {
    case connections(limit: Int)
    case connectionsPerAddress(limit: Int)
    /// No file descriptor is left.
    case files
    case draining

    /// The name in metrics and the log: that of the limit, or of the reason.
    public var reason: String {
        switch self {
        case .connections: LimitReached.connections.name
        case .connectionsPerAddress: LimitReached.connectionsPerAddress.name
        case .files: "files"
        case .draining: ErrorWord.draining.name
        }
    }

    var word: ErrorWord {
        switch self {
        case .connections, .connectionsPerAddress: .limit
        case .files: .unavailable
        case .draining: .draining
        }
    }

    /// The text for the client, in ASCII.
    public var message: String { word.text(sentence) }

    var sentence: String {
        switch self {
        case .connections(let limit):
            "The broker has \(counted(limit, "connection")), the maximum; try again later."
        case .connectionsPerAddress(let limit):
            "Your address has \(counted(limit, "connection")), the maximum; close some."
        case .files: "The broker has reached its limit on open files; try again later."
        case .draining: Refusal.draining.sentence
        }
    }
}
