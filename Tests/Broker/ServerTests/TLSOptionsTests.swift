// The TLS settings: which belong together, and their effect.

import Core
import TLS
import Testing

@testable import Server

@Suite struct TLSOptionsTests {
    private func load(_ settings: [(name: String, value: String)]) throws(UsageError) -> Options {
        try Loader.load(nil, environment: [], settings: settings) { _ in }.options
    }

    private let pair = [(name: "tls-cert", value: "c"), (name: "tls-key", value: "k")]

    @Test func withoutCertificateThereIsNone() throws {
        #expect(try load([]).tls.settings == nil)
    }

    @Test func clientsAreVerifiedWhereTheirAuthorityIsKnown() throws {
        #expect(try load(pair).tls.settings == TLSServerSettings(certificate: "c", key: "k"))
        let known = pair + [("tls-client-ca", "a"), ("tls-kernel", "true")]
        var expected = TLSServerSettings(
            certificate: "c", key: "k", clientAuthority: "a", verification: .required, usesKernel: true)
        #expect(try load(known).tls.settings == expected)
        expected.verification = .optional
        #expect(try load(known + [("tls-verify-client", "optional")]).tls.settings == expected)
        #expect(
            try load(pair + [("tls-except", "http"), ("tls-except", "admin")]).tls.cleartext == ["http", "admin"])
    }

    @Test(arguments: [
        ([("tls-cert", "c")], "--tls-cert c needs the certificate's key"),
        ([("tls-key", "k")], "--tls-key k needs the key's certificate"),
        ([("tls-client-ca", "a")], "--tls-client-ca a requires TLS"),
        (
            [("tls-cert", "c"), ("tls-key", "k"), ("tls-verify-client", "required")],
            "--tls-verify-client required needs authorities to verify against"
        ),
        ([("tls-verify-client", "maybe")], "--tls-verify-client maybe is not one of auto, off, optional, required"),
        ([("tls-except", "grpc")], "--tls-except grpc is not a listener: use rsocket, http, admin"),
    ])
    func refuses(settings: [(String, String)], why: String) {
        let error = #expect(throws: UsageError.self) { try load(settings.map { (name: $0, value: $1) }) }
        #expect(error?.faults.count == 1 && error?.faults.first?.hasPrefix(why) == true, "\(error?.faults ?? [])")
    }
}
