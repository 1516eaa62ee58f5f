// NATSServerError: the meaning of the text of an -ERR.

import Bytes
import ForebayWire

/// What a server reports with -ERR.
public enum NATSServerError: Equatable, Sendable {
    /// Credentials are missing, wrong, expired, revoked, or came too late. The server closes the connection.
    case authorization(String)
    /// Publishing to this subject is not permitted. The connection continues.
    case publishDenied(subject: String)
    /// Subscribing to this filter is not permitted. The connection continues.
    case subscribeDenied(subject: String)
    /// A published message was too large. The server closes the connection.
    case maxPayload
    /// This client reads too slowly. The server closes the connection.
    case slowConsumer
    /// This client did not answer PINGs. The server closes the connection.
    case staleConnection
    /// The server or the account has as many connections as are allowed. The server closes the connection.
    case maxConnections
    /// The account has as many subscriptions as are allowed. The connection continues.
    case maxSubscriptions
    /// Any other text. The server closes the connection if it has to.
    case unknown(String)

    init(_ bytes: UnsafeRawBufferPointer) {
        // Servers quote names that clients chose: no control characters get from here into a log.
        let text = String(String.UnicodeScalarView(bytes.text.unicodeScalars.filter { !TextScan.isControl($0.value) }))
        let lower = text.lowercased()
        func subject(after prefix: String) -> String? {
            guard lower.hasPrefix(prefix) else { return nil }
            let rest = text.utf8.dropFirst(prefix.utf8.count)
            // Up to the next quotation mark; the name of a queue group may follow.
            return String(rest.prefix { $0 != UInt8(ascii: "\"") })
        }
        if let subject = subject(after: "permissions violation for publish to \"") {
            self = .publishDenied(subject: subject)
        } else if let subject = subject(after: "permissions violation for subscription to \"") {
            self = .subscribeDenied(subject: subject)
        } else if NATSServerError.authorizations.contains(where: lower.hasPrefix) {
            self = .authorization(text)
        } else {
            switch lower {
            case "maximum payload violation": self = .maxPayload
            case "slow consumer": self = .slowConsumer
            case "stale connection": self = .staleConnection
            case "maximum connections exceeded", "maximum account active connections exceeded": self = .maxConnections
            case "maximum subscriptions exceeded": self = .maxSubscriptions
            default: self = .unknown(text)
            }
        }
    }

    private static let authorizations = [
        "authorization violation", "authorization timeout", "authentication timeout", "authentication expired",
        "authentication revoked", "user authentication expired", "user authentication revoked",
        "account authentication expired", "account authentication revoked",
    ]

    /// What is wrong and what to do about it.
    public var sentence: String {
        switch self {
        case .publishDenied(let subject):
            "The NATS server does not permit this node to publish to \(subject); give its user the permission."
        case .subscribeDenied(let subject):
            "The NATS server does not permit this node to subscribe to \(subject); give its user the permission."
        case .maxSubscriptions:
            "The NATS account has as many subscriptions as it may have; raise its limit, or use fewer topics."
        case .unknown(let text): "The NATS server reports: \(text)."
        case .authorization, .maxPayload, .slowConsumer, .staleConnection, .maxConnections: ending?.sentence ?? ""
        }
    }

    /// The error that ends the connection; nil if it continues.
    var ending: NATSError? {
        switch self {
        case .publishDenied, .subscribeDenied, .maxSubscriptions, .unknown: nil
        case .authorization(let text):
            .connection(.unauthenticated, "The NATS server rejects the credentials: \(text).")
        case .maxPayload: .connection(.tooLarge, "A published message was larger than the NATS server allows.")
        case .slowConsumer: .connection(.limit, "The NATS server gave up because this client reads too slowly.")
        case .staleConnection: .connection(.timeout, "The NATS server received no answer to its PINGs.")
        case .maxConnections: .connection(.limit, "The NATS server has as many connections as it allows.")
        }
    }
}
