// TLSCertificate: who a peer is, as its certificate says; and when a certificate begins and ends.

import COpenSSL
import Glibc

/// What is kept of a certificate that was verified.
public struct TLSCertificate: Equatable, Sendable {
    /// The subject's common name; where it has none, or several, the first of the alternative names that is a host's,
    /// an address of mail, or a URI. Nil when there is none of these either.
    public var user: String?
    /// The subject, as RFC 2253 writes it: "CN=reader,O=Example".
    public var subject: String

    /// Bytes of a name; a longer one is none.
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

/// What a server shows of itself, and from when to when clients take it.
public struct TLSValidity: Equatable, Sendable {
    /// As RFC 2253 writes it: "CN=broker.example.org".
    public var subject: String
    /// Seconds since 1970, the last one included.
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

    /// OpenSSL has read the certificate, and so its times can be read.
    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return Int64(timegm(&parts))
    }
}
