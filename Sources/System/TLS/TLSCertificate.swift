// TLSCertificate: a peer's identity, from its certificate, and a certificate's period of validity.

import COpenSSL
import Glibc

/// The parts of a verified certificate that are kept.
public struct TLSCertificate: Equatable, Sendable {
    /// The subject's common name. If it has none, or several: the first alternative name that is a host name, an e-mail
    /// address or a URI. Nil if there is none of these either.
    public var user: String?
    /// The subject in the format of RFC 2253: "CN=reader,O=Example".
    public var subject: String

    /// The most bytes in a name; longer ones are ignored.
    static let nameLimit = 255
    private static let subjectLimit = 1024

    init(_ certificate: OpaquePointer) {
        var name = [CChar](repeating: 0, count: TLSCertificate.nameLimit + 1)
        let hasName =
            fb_tls_common_name(certificate, &name, name.count) == 1
            || fb_tls_alternative_name(certificate, &name, name.count) == 1
        user = hasName ? TLSCertificate.text(name) : nil
        subject = TLSCertificate.subject(of: certificate)
    }

    fileprivate static func subject(of certificate: OpaquePointer) -> String {
        var subject = [CChar](repeating: 0, count: subjectLimit)
        fb_tls_subject(certificate, &subject, subject.count)
        return text(subject)
    }

    private static func text(_ bytes: [CChar]) -> String {
        String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// A server's own certificate: its subject, and when clients accept it.
public struct TLSValidity: Equatable, Sendable {
    /// In the format of RFC 2253: "CN=broker.example.org".
    public var subject: String
    /// Seconds since 1970, both inclusive.
    public var begins: Int64
    public var ends: Int64

    public init(subject: String, begins: Int64, ends: Int64) {
        self.subject = subject
        self.begins = begins
        self.ends = ends
    }

    init(_ certificate: OpaquePointer) {
        subject = TLSCertificate.subject(of: certificate)
        begins = TLSValidity.seconds(X509_get0_notBefore(certificate))
        ends = TLSValidity.seconds(X509_get0_notAfter(certificate))
    }

    /// OpenSSL has parsed the certificate, so its times are valid.
    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return Int64(timegm(&parts))
    }
}
