// INFO and -ERR of servers, and what they mean.

import Testing

@testable import NATS

@Suite struct NATSInfoTests {
    private func read(_ json: String) throws -> NATSInfo {
        try withRaw(json) { bytes in try NATSInfo(json: bytes) }
    }

    /// As nats-server 2.15 sends it.
    @Test func everyMemberIsRead() throws {
        let info = try read(
            """
            {"server_id":"NAB","server_name":"n1","version":"2.15.1","proto":1,"go":"go1.26","host":"0.0.0.0",
            "port":4222,"headers":true,"auth_required":true,"tls_required":true,"tls_verify":true,"tls_available":true,
            "max_payload":1048576,"jetstream":true,"client_id":5,"client_ip":"127.0.0.1","nonce":"abc","ldm":true,
            "cluster":"C","connect_urls":["10.0.0.1:4222","[::1]:4223"],"xkey":"X"}
            """)
        var expected = NATSInfo()
        (expected.serverID, expected.serverName, expected.version, expected.clientID) = ("NAB", "n1", "2.15.1", 5)
        (expected.maxPayload, expected.hasHeaders, expected.hasJetStream) = (1_048_576, true, true)
        (expected.requiresTLS, expected.offersTLS, expected.requiresAuthentication) = (true, true, true)
        (expected.nonce, expected.isLameDuck, expected.urls) = ("abc", true, ["10.0.0.1:4222", "[::1]:4223"])
        #expect(info == expected)
        #expect(info.release! == (2, 15))
    }

    @Test func membersOfTheWrongTypeAreIgnored() throws {
        #expect(try read("{}") == NATSInfo())
        #expect(
            try read(
                """
                {"server_id":1,"version":null,"headers":"true","max_payload":-1,"client_id":-1,"nonce":{},"ldm":1,
                "connect_urls":{"a":1},"jetstream":[]}
                """) == NATSInfo())
        #expect(try read(#"{"connect_urls":[1,"a",null]}"#).urls == ["a"])
        #expect(try read("{}").release == nil)
        #expect(try read(#"{"version":"3.0.0-RC.1"}"#).release! == (3, 0))
    }

    @Test(arguments: [
        "", "[]", "1", "{", "{}x", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}", "{\"a\":1\u{0}}",
        "{\"a\":99999999999999999999}", String(repeating: "[", count: 30_000),
        "{\"a\":" + String(repeating: "[", count: 3000) + String(repeating: "]", count: 3000) + "}",
    ])
    func hostileJSONEndsTheConnection(json: String) {
        #expect {
            _ = try read(json)
        } throws: {
            ($0 as? NATSError)?.endsConnection == true
        }
    }

    @Test func invalidUTF8EndsTheConnection() {
        let bytes = Array("{\"a\":\"".utf8) + [0xC3, 0x28] + Array("\"}".utf8)
        #expect(throws: NATSError.self) { try bytes.withUnsafeBytes { _ = try NATSInfo(json: $0) } }
    }

    @Test func urlsAreLimited() throws {
        let urls = (0..<100).map { "\"h\($0):1\"" }.joined(separator: ",")
        #expect(try read("{\"connect_urls\":[\(urls)]}").urls.count == NATSLimits.maxURLs)
    }

    static let errors: [(text: String, error: NATSServerError, ends: Bool)] = [
        ("Authorization Violation", .authorization("Authorization Violation"), true),
        ("User Authentication Expired", .authorization("User Authentication Expired"), true),
        ("Authentication Timeout", .authorization("Authentication Timeout"), true),
        ("Permissions Violation for Publish to \"a.b\"", .publishDenied(subject: "a.b"), false),
        ("permissions violation for subscription to \"x.>\"", .subscribeDenied(subject: "x.>"), false),
        (
            "Permissions Violation for Subscription to \"x\" using queue \"q\"", .subscribeDenied(subject: "x"), false
        ),
        ("Maximum Payload Violation", .maxPayload, true), ("Slow Consumer", .slowConsumer, true),
        ("Stale Connection", .staleConnection, true), ("maximum connections exceeded", .maxConnections, true),
        ("Maximum Account Active Connections Exceeded", .maxConnections, true),
        ("Maximum Subscriptions Exceeded", .maxSubscriptions, false),
        ("Invalid Subject", .unknown("Invalid Subject"), false), ("", .unknown(""), false),
        ("a\u{1B}[31mb", .unknown("a[31mb"), false),
    ]

    @Test(arguments: errors) func errorsAreClassified(text: String, error: NATSServerError, ends: Bool) {
        let read = withRaw(text) { NATSServerError($0) }
        #expect(read == error)
        #expect((read.ending != nil) == ends)
        #expect(read.ending?.endsConnection != false)
    }
}
