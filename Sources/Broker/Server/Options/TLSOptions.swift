// TLSOptions: the settings that begin with "tls-", and what they come to together.

import Configuration
import Core
import EventLoop
import TLS

/// As they were set.
public struct TLSOptions: Equatable, Sendable {
    public var certificate: String?
    public var key: String?
    public var clientAuthority: String?
    /// Nil is `required` with authorities of clients, and `off` without.
    public var verification: ClientVerification?
    /// Listeners that speak no TLS nevertheless, by the names of `Listener.names`.
    public var cleartext: [String] = []
    public var usesKernel = false

    public init() {}

    /// What does not go together, each as a sentence.
    func faults(_ subject: (String) -> String) -> [String] {
        if certificate == nil, key != nil {
            return ["\(subject("tls-key")) needs the key's certificate: set tls-cert too"]
        }
        if certificate != nil, key == nil {
            return ["\(subject("tls-cert")) needs the certificate's key: set tls-key too"]
        }
        if certificate == nil, clientAuthority != nil {
            return ["\(subject("tls-client-ca")) is for TLS, and there is none: set tls-cert and tls-key too"]
        }
        if let verification, verification != .off, clientAuthority == nil {
            return ["\(subject("tls-verify-client")) needs to know whose certificates are good: set tls-client-ca too"]
        }
        return []
    }

    /// What they come to, of those that have no faults; nil without a certificate: no listener speaks TLS then.
    var settings: TLSServerSettings? {
        guard let certificate, let key else { return nil }
        let verification = verification ?? (clientAuthority == nil ? .off : .required)
        return TLSServerSettings(
            certificate: certificate, key: key, clientAuthority: clientAuthority, verification: verification,
            usesKernel: usesKernel)
    }
}

extension Setting {
    /// Files are read again at each reload, but which they are is for a restart.
    static let tls: [Setting] = [
        .file("tls-cert", \.tls.certificate, "certificate chain in PEM; enables TLS"),
        .file("tls-key", \.tls.key, "private key of the certificate, in PEM"),
        .file("tls-client-ca", \.tls.clientAuthority, "certificate authorities for client certificates, in PEM"),
        .choice(
            "tls-verify-client", "MODE", \.tls.verification,
            [("auto", nil)] + ClientVerification.allCases.map { ($0.rawValue, $0) },
            "client certificates: off, optional or required; auto requires them if tls-client-ca is set"),
        .list(
            "tls-except", "NAME", \.tls.cleartext, most: Listener.names.count,
            "listeners without TLS: \(Listener.names.joined(separator: ", "))", read: readListeners, write: { $0 }),
        .truth("tls-kernel", \.tls.usesKernel, "use kernel TLS where available"),
    ]

    private static func readListeners(_ texts: [String]) throws(ValueFault) -> [String] {
        for text in texts where !Listener.names.contains(text) {
            throw ValueFault("is no listener: they are \(Listener.names.joined(separator: ", "))")
        }
        return texts
    }
}
