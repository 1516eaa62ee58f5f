// TLSCertificate: who a peer is, as its certificate says.

import COpenSSL

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
        var subject = [CChar](repeating: 0, count: TLSCertificate.subjectLimit)
        fb_tls_subject(certificate, &subject, subject.count)
        self.subject = TLSCertificate.text(subject)
    }

    private static func text(_ bytes: [CChar]) -> String {
        String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
