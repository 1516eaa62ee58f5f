// A client and a real broker over TLS: which brokers are trusted, and the errors otherwise.

import Core
import EventLoop
import Glibc
import Streams
import TLS
import TestCertificates
import Testing

@testable import Forebay
@testable import Server

@Suite struct ForebayTLSTests {
    private static func start(_ verification: ClientVerification = .off) throws -> (Server, Log) {
        let local = try TestCertificate.local.get()
        var configuration = Server.Configuration(
            listen: Endpoint(host: "127.0.0.1", port: 0), http: Endpoint(host: "127.0.0.1", port: 0), threads: 2)
        configuration.tls = try TLSServer(
            TLSServerSettings(
                certificate: local.certificate, key: local.key,
                clientAuthority: verification == .off ? nil : local.certificate, verification: verification))
        let log = try Log(level: .error, format: .text, descriptor: open("/dev/null", O_WRONLY))
        return (try Server(configuration, log: log), log)
    }

    private static func url(_ server: Server, _ wire: Wire) -> String {
        "\(wire == .http ? "https" : "rsockets")://localhost:\(server.addresses(wire.plain)[0].port)"
    }

    @Test(arguments: Wire.allCases) func whatIsPublishedIsDelivered(_ wire: Wire) async throws {
        let (server, log) = try Self.start(.required)
        let local = try TestCertificate.local.get()
        let url = Self.url(server, wire)
        try await within {
            var options = quick
            options.tls = .init(authority: local.certificate, certificate: local.certificate, key: local.key)
            let client = try await ForebayClient.connect(url, options)
            let topic = client.topic("orders")
            let large = String(repeating: "x", count: 900_000)
            for text in ["one", large, "three"] { _ = try await topic.publish(text) }
            var iterator = topic.messages(replay: .all).makeAsyncIterator()
            for text in ["one", large, "three"] { #expect(try await iterator.next()?.text == text) }
            await client.close()
        }
        server.stop()
        #expect(server.wait())
        log.close()
    }

    @Test(arguments: Wire.allCases) func whoIsNotTrustedIsTold(_ wire: Wire) async throws {
        let (server, log) = try Self.start()
        let url = Self.url(server, wire)
        let other = try TestCertificate.other.get()
        try await within {
            for authority in [nil, other.certificate] {
                var options = quick
                options.tls.authority = authority
                let failure = await error { _ = try await ForebayClient.connect(url, options) }
                #expect(failure?.code == .untrusted)
                #expect(failure?.message.hasPrefix("The certificate of localhost is not trusted: ") == true)
            }
            var options = quick
            options.tls.authority = "/nowhere"
            #expect(await error { _ = try await ForebayClient.connect(url, options) }?.code == .badFile)
            options.tls = .init()
            options.tls.verifies = false
            await (try ForebayClient.connect(url, options)).close()
        }
        server.stop()
        #expect(server.wait())
        log.close()
    }
}
