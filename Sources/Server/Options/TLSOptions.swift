// TLSOptions: the options that begin with "tls-", and what they come to together.

import Configuration
import Core
import TLS

/// As they were given.
public struct TLSOptions: Equatable, Sendable {
    public var certificate: String?
    public var key: String?
    public var clientAuthority: String?
    public var verification: ClientVerification?
    /// Listeners that speak no TLS nevertheless.
    public var cleartext: Set<Face> = []
    public var usesKernel = false

    public init() {}

    /// What does not go together.
    var fault: String? {
        do throws(UsageError) {
            _ = try settings()
            return nil
        } catch {
            return error.description
        }
    }

    /// What they come to; nil without a certificate: no listener speaks TLS then.
    public func settings() throws(UsageError) -> TLSServerSettings? {
        guard let certificate, let key else {
            if certificate != nil { throw UsageError("--tls-cert needs the certificate's key: give --tls-key too") }
            if key != nil { throw UsageError("--tls-key needs the key's certificate: give --tls-cert too") }
            if self != TLSOptions() {
                throw UsageError("without --tls-cert and --tls-key there is no TLS: leave the other --tls options out")
            }
            return nil
        }
        let verification = verification ?? (clientAuthority == nil ? .off : .required)
        if verification != .off, clientAuthority == nil {
            throw UsageError(
                "--tls-verify-client \(verification.rawValue) needs to know whose certificates are good: give "
                    + "--tls-client-ca too")
        }
        return TLSServerSettings(
            certificate: certificate, key: key, clientAuthority: clientAuthority, verification: verification,
            usesKernel: usesKernel)
    }
}

extension Setting {
    static let tls: [Setting] = [
        .file("tls-cert", \.tls.certificate, "certificate, and what leads from it to its authority (PEM)"),
        .file("tls-key", \.tls.key, "its private key (PEM)"),
        .file("tls-client-ca", \.tls.clientAuthority, "authorities whose certificates clients show (PEM)"),
        .value(
            "tls-verify-client", "MODE", \.tls.verification,
            "off, optional or required; auto is required with tls-client-ca"
        ) { text throws(ValueFault) in
            if text == "auto" { return nil }
            guard let mode = ClientVerification(rawValue: text) else {
                throw ValueFault("is none of off, optional, required, auto")
            }
            return mode
        } write: {
            $0?.rawValue ?? "auto"
        },
        .list(
            "tls-except", "LISTENER", \.tls.cleartext, most: Face.all.count,
            "listeners that speak no TLS: rsocket or http"
        ) { texts throws(ValueFault) in
            var faces: Set<Face> = []
            for text in texts {
                guard let face = Face.all.first(where: { $0.name == text }) else {
                    throw ValueFault("is no listener: they are \(Face.all.map(\.name).joined(separator: ", "))")
                }
                faces.insert(face)
            }
            return faces
        } write: { faces in
            Face.all.filter { faces.contains($0) }.map(\.name)
        },
        .choice(
            "tls-kernel", "on|off", \.tls.usesKernel, [("on", true), ("off", false)],
            "have the kernel encrypt, where it can"),
    ]
}
