// TLSOptions: the settings that begin with "tls-", and what they amount to together.

import Configuration
import Core
import EventLoop
import TLS

/// The TLS settings as they were written.
public struct TLSOptions: Equatable, Sendable {
    public var certificate: String?
    public var key: String?
    public var clientAuthority: String?
    /// Nil means `required` if there are client authorities, otherwise `off`.
    public var verification: ClientVerification?
    /// Listeners without TLS, by the names in `Listener.names`.
    public var cleartext: [String] = []
    public var usesKernel = false

    public init() {}

    /// Settings that contradict each other, each as a sentence.
    func faults(_ subject: (String) -> String) -> [String] {
        if certificate == nil, key != nil {
            return ["\(subject("tls-key")) needs the key's certificate: also set tls-cert"]
        }
        if certificate != nil, key == nil {
            return ["\(subject("tls-cert")) needs the certificate's key: also set tls-key"]
        }
        if certificate == nil, clientAuthority != nil {
            return ["\(subject("tls-client-ca")) requires TLS: also set tls-cert and tls-key"]
        }
        if let verification, verification != .off, clientAuthority == nil {
            return ["\(subject("tls-verify-client")) needs authorities to verify against: also set tls-client-ca"]
        }
        return []
    }

    /// The effective settings, if there are no faults; nil without a certificate, because then no listener uses TLS.
    var settings: TLSServerSettings? {
        guard let certificate, let key else { return nil }
        let verification = verification ?? (clientAuthority == nil ? .off : .required)
        return TLSServerSettings(
            certificate: certificate, key: key, clientAuthority: clientAuthority, verification: verification,
            usesKernel: usesKernel)
    }
}

extension Setting {
    /// A reload reads the files again, but other file names require a restart.
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
            throw ValueFault("is not a listener: use \(Listener.names.joined(separator: ", "))")
        }
        return texts
    }
}
