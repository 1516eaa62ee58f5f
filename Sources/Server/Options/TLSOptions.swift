// TLSOptions: the options that begin with "tls-", and what they come to together.

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

    /// - Returns: false for an option that is none of these.
    mutating func set(_ name: String, to value: String) throws(UsageError) -> Bool {
        switch name {
        case "tls-cert": certificate = value
        case "tls-key": key = value
        case "tls-client-ca": clientAuthority = value
        case "tls-verify-client":
            guard let one = ClientVerification(rawValue: value) else {
                throw UsageError("--tls-verify-client \(value) is none of off, optional, required")
            }
            verification = one
        case "tls-except":
            guard let face = Face.all.first(where: { $0.name == value }) else {
                throw UsageError(
                    "--tls-except \(value) is no listener: they are \(Face.all.map(\.name).joined(separator: ", "))")
            }
            cleartext.insert(face)
        case "tls-kernel":
            guard value == "on" || value == "off" else {
                throw UsageError("--tls-kernel \(value) is neither on nor off")
            }
            usesKernel = value == "on"
        default: return false
        }
        return true
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
