// The connection: what it does with each input in each state.

import Bytes
import Testing

@testable import NATS

private let second: UInt64 = 1_000_000_000

@Suite struct NATSOpeningTests {
    private func options(
        _ tls: NATSTLS = .off, _ credentials: NATSCredentials = .none
    ) -> NATSOptions {
        var options = Client.options
        options.tls = tls
        options.credentials = credentials
        return options
    }

    @Test func aConnectionOpens() {
        let client = Client()
        client.receive("INFO {}\r\n")
        #expect(client.events.isEmpty && client.deadline == nil)
        client.open()
        #expect(client.output() == "" && client.deadline == 1_000 + 5 * second)
        client.receive("INFO \(Client.info)\r\n")
        #expect(client.events.isEmpty && !client.isReady)
        #expect(client.info?.serverID == "S")
        let output = client.output()
        #expect(output.hasPrefix("CONNECT {") && output.hasSuffix("}\r\nPING\r\n"))
        #expect(output.contains(#""version":"1","name":"test"}"#) && output.contains(#""tls_required":false"#))
        client.receive("INFO \(Client.info)\r\nPING\r\n")
        #expect(client.output() == "PONG\r\n")
        client.receive("+OK\r\nPONG\r\n")
        #expect(client.events == ["info", "ready"] && client.isReady)
        client.open()
        client.secure()
        #expect(client.isReady && client.output() == "")
    }

    @Test func everySplitOfAConversationGivesTheSameEvents() {
        let conversation =
            "INFO \(Client.info)\r\nPONG\r\nMSG a 1 2\r\nhi\r\n-ERR 'Invalid Subject'\r\nPING\r\nHMSG a 1 r 12 13\r\n"
            + "NATS/1.0\r\n\r\nx\r\nINFO {\"ldm\":true}\r\n-ERR 'Stale Connection'\r\nPING\r\n"
        let whole = Client()
        whole.open()
        whole.receive(conversation)
        #expect(whole.events.count == 6 && whole.events.last?.hasPrefix("failed timeout: ") == true)
        let bytes = Array(conversation.utf8)
        for place in bytes.indices {
            let cut = Client()
            cut.open()
            for piece in [bytes[..<place], bytes[place...]] { cut.receive(String(decoding: piece, as: UTF8.self)) }
            #expect(cut.events == whole.events)
        }
    }

    @Test func credentialsAreSent() throws {
        let key = try NATSKey(seed: "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y".utf8)
        let signature = try key.sign("N")
        let cases: [(NATSCredentials, String)] = [
            (.password(user: "u", password: "p"), #""user":"u","pass":"p"}"#),
            (.token("t"), #""name":"test","auth_token":"t"}"#),
            (.key(key), #""name":"test","nkey":"\#(key.publicKey)","sig":"\#(signature)"}"#),
            (.jwt("j", key), #""name":"test","jwt":"j","sig":"\#(signature)"}"#),
        ]
        for (credentials, expected) in cases {
            let client = Client(options(.off, credentials))
            client.open()
            client.receive("INFO {\"nonce\":\"N\"}\r\n")
            #expect(client.output().contains(expected))
            let other = Client(options(.off, credentials))
            other.open()
            other.receive("INFO {}\r\n")
            #expect(other.events.contains { $0.hasPrefix("failed unsupported") } == credentials.needsNonce)
            #expect(other.output().isEmpty == credentials.needsNonce)
        }
    }

    /// For each setting and each INFO: whether TLS begins, nothing changes, or the connection ends.
    @Test(arguments: [
        (NATSTLS.off, "{}", "open"), (.off, #"{"tls_available":true}"#, "open"),
        (.off, #"{"tls_required":true}"#, "failed"), (.ifOffered, "{}", "open"),
        (.ifOffered, #"{"tls_available":true}"#, "startTLS"), (.ifOffered, #"{"tls_required":true}"#, "startTLS"),
        (.required, "{}", "failed"), (.required, #"{"tls_available":true}"#, "startTLS"),
        (.required, #"{"tls_required":true}"#, "startTLS"),
    ])
    func tlsIsUsedAsConfigured(tls: NATSTLS, info: String, result: String) {
        let client = Client(options(tls, .token("secret")))
        client.open()
        client.receive("INFO \(info)\r\n")
        let output = client.output()
        switch result {
        case "open": #expect(client.events.isEmpty && output.contains("secret"))
        case "failed":
            #expect(client.events.first?.hasPrefix("failed unsupported: ") == true && output.isEmpty)
        default:
            #expect(client.events == ["startTLS"] && output.isEmpty)
            client.secure()
            #expect(client.output().contains(#""tls_required":true"#) && client.usesTLS)
            client.receive("PONG\r\n")
            #expect(client.events == ["startTLS", "ready"])
        }
    }

    @Test func tlsComesFirstIfConfigured() {
        let client = Client(options(.first))
        client.open()
        #expect(client.events == ["startTLS"] && client.output() == "")
        client.secure()
        client.receive("INFO {\"tls_required\":true}\r\nPONG\r\n")
        #expect(client.events == ["startTLS", "ready"])
    }

    @Test func unencryptedBytesDoNotCountAsEncrypted() {
        let injected = Client(options(.required))
        injected.open()
        injected.receive("INFO {\"tls_required\":true}\r\nPONG\r\n")
        #expect(injected.events.count == 1 && injected.events[0].hasPrefix("failed protocol: "))
        let later = Client(options(.required))
        later.open()
        later.receive("INFO {\"tls_required\":true}\r\n")
        later.receive("P")
        #expect(later.events.count == 2 && later.events[1].hasPrefix("failed protocol: "))
    }

    @Test(arguments: [
        ("-ERR 'Authorization Violation'\r\n", "failed unauthenticated: "), ("-ERR 'x'\r\n", "failed unavailable: "),
        ("-ERR 'maximum connections exceeded'\r\n", "failed limit: "), ("MSG a 1 0\r\n\r\n", "failed protocol: "),
        ("GET / HTTP/1.1\r\n", "failed protocol: "), ("PONG\r\nPONG\r\n", "failed protocol: "),
        ("-ERR 'Permissions Violation for Publish to \"a\"'\r\n", "failed protocol: "),
        ("INFO []\r\n", "failed protocol: "),
    ])
    func refusalsEndTheConnection(bytes: String, event: String) {
        for isFirst in [true, false] {
            let client = Client()
            client.open()
            if !isFirst { client.receive("INFO {}\r\n") }
            client.receive(bytes)
            #expect(client.events.last?.hasPrefix(event) == true)
            #expect(client.isEnded && client.output() == "" && client.deadline == nil)
            let count = client.events.count
            client.receive("INFO {}\r\nPONG\r\n")
            client.close()
            client.secure()
            client.wait(100 * second)
            #expect(client.events.count == count)
        }
    }

    @Test func openingHasATimeLimit() {
        for steps in 0..<3 {
            let client = Client(options(.ifOffered))
            client.open()
            if steps == 1 { client.receive("INFO {\"tls_available\":true}\r\n") }
            if steps == 2 { client.receive("INFO {}\r\n") }
            client.wait(5 * second - 1)
            #expect(!client.isEnded)
            client.wait(1)
            #expect(client.events.last?.hasPrefix("failed timeout: ") == true)
        }
    }

    @Test func aLostConnectionIsReportedOnce() {
        for steps in 0..<4 {
            let client = Client(options(steps == 3 ? .first : .off))
            if steps > 0 { client.open() }
            if steps == 2 { client.receive("INFO {}\r\nPONG\r\nMSG a 1 5\r\nhe") }
            client.close()
            client.close()
            #expect(client.events.filter { $0.hasPrefix("failed unavailable: ") }.count == (steps == 0 ? 0 : 1))
            #expect(client.bufferedBytes == 0)
        }
    }
}

@Suite struct NATSReadyTests {
    @Test func requestsAreWritten() throws {
        let client = Client.ready()
        try client.connection.subscribe("a.>", subscription: 1)
        try client.connection.subscribe("b", queue: "q", subscription: 2)
        var headers = NATSHeaderBlock()
        try headers.append("A", "1")
        try withRaw("hi") { try client.connection.publish("a.b", reply: "r", headers: headers, payload: $0) }
        try client.connection.unsubscribe(2)
        #expect(try client.connection.flush() == 2)
        #expect(
            client.output()
                == "SUB a.> 1\r\nSUB b q 2\r\nHPUB a.b r 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nhi\r\nUNSUB 2\r\nPING\r\n")
        client.receive("MSG a.b 1 r 2\r\nhi\r\nPONG\r\n")
        #expect(client.events == ["message a.b 1 reply=r payload=hi", "flushed 2"])
    }

    @Test func requestsNeedAConnection() {
        let client = Client()
        for step in 0..<3 {
            if step == 1 { client.open() }
            if step == 2 { client.receive("INFO {}\r\n") }
            let before = client.pending
            #expect(throws: NATSError.self) { try client.connection.subscribe("a", subscription: 1) }
            #expect(throws: NATSError.self) { try client.connection.unsubscribe(1) }
            #expect(throws: NATSError.self) { try client.connection.publish("a", payload: .nothing) }
            #expect(throws: NATSError.self) { _ = try client.connection.flush() }
            #expect(client.pending == before)
        }
    }

    @Test func messagesRespectTheServersLimits() throws {
        let client = Client.ready()
        try withRaw(String(repeating: "x", count: 1000)) { try client.connection.publish("a", payload: $0) }
        #expect(client.output().count == 1000 + 12)
        let words: [NATSError] = [
            failure {
                try withRaw(String(repeating: "x", count: 1001)) { try client.connection.publish("a", payload: $0) }
            },
            failure {
                try withRaw(String(repeating: "x", count: 989)) {
                    try client.connection.publish("a", headers: NATSHeaderBlock(), payload: $0)
                }
            },
        ].compactMap { $0 }
        #expect(words.map(\.word) == [.tooLarge, .tooLarge] && words.allSatisfy { !$0.endsConnection })
        let old = Client.ready(info: "{}")
        #expect(old.info?.hasHeaders == false && old.info?.hasJetStream == false)
        #expect(
            failure { try old.connection.publish("a", headers: NATSHeaderBlock(), payload: .nothing) }?.word
                == .unsupported)
        #expect(client.output() == "" && old.output() == "")
    }

    /// Waiting cannot make room for such a message.
    @Test func messagesLargerThanTheOutputAreTooLarge() throws {
        var options = Client.options
        options.limits.maxPending = 10_000
        let client = Client.ready(options, info: #"{"headers":true,"max_payload":1000000}"#)
        let most = 10_000 - NATSLimits.maxWrittenLine
        let error = failure {
            try withRaw(String(repeating: "x", count: most + 1)) { try client.connection.publish("a", payload: $0) }
        }
        #expect(error?.word == .tooLarge && error?.scope == .call && client.pending == 0)
        try withRaw(String(repeating: "x", count: most)) { try client.connection.publish("a", payload: $0) }
        #expect(client.pending > most)
    }

    private func failure(_ body: () throws -> Void) -> NATSError? {
        do { try body() } catch { return error as? NATSError }
        return nil
    }

    @Test func outputIsBounded() throws {
        var options = Client.options
        options.limits.maxPending = 10_000
        let client = Client.ready(options)
        var count = 0
        let error = failure {
            while true {
                try withRaw(String(repeating: "x", count: 500)) { try client.connection.publish("a", payload: $0) }
                count += 1
                #expect(client.room == 10_000 - client.pending)
            }
        }
        #expect(error?.word == .limit && error?.scope == .call && count > 8)
        #expect(client.pending <= 10_000)
        let last = failure { while true { _ = try client.connection.flush() } }
        #expect(last?.word == .limit && client.pending <= 10_000)
        // The answers to PINGs have space of their own, which is bounded as well.
        client.receive("PING\r\n")
        #expect(client.events.isEmpty)
        client.receive(String(repeating: "PING\r\n", count: 3_000))
        #expect(client.events.count == 1 && client.events[0].hasPrefix("failed limit: "))
    }

    @Test func flushesAndKeepalivesShareTheOrderOfPings() throws {
        let client = Client.ready()
        #expect(try client.connection.flush() == 2)
        client.wait(20 * second)
        #expect(try client.connection.flush() == 4)
        #expect(client.output() == "PING\r\nPING\r\nPING\r\n")
        client.receive("PONG\r\n")
        #expect(client.events == ["flushed 2"])
        client.receive("PONG\r\nPONG\r\n")
        #expect(client.events == ["flushed 2", "flushed 3", "flushed 4"])
        client.receive("PONG\r\n")
        #expect(client.events.last?.hasPrefix("failed protocol: ") == true)
    }

    @Test func aSilentServerIsLeft() {
        let client = Client.ready()
        #expect(client.deadline == client.now + 20 * second)
        client.wait(20 * second - 1)
        #expect(client.output() == "")
        client.wait(1)
        #expect(client.output() == "PING\r\n" && client.deadline == client.now + 20 * second)
        client.wait(20 * second)
        #expect(client.output() == "PING\r\n")
        client.receive("PONG\r\nPONG\r\n")
        for _ in 0..<2 {
            client.wait(20 * second)
            #expect(client.output() == "PING\r\n" && !client.isEnded)
        }
        client.wait(20 * second)
        #expect(client.events.last?.hasPrefix("failed timeout: ") == true && client.output() == "")
    }

    @Test func pingsAreAnswered() {
        let client = Client.ready()
        client.receive("PING\r\nPING\r\n")
        #expect(client.output() == "PONG\r\nPONG\r\n" && client.events.isEmpty)
    }

    @Test func laterInfosAreReported() {
        let client = Client.ready()
        client.receive("INFO {\"connect_urls\":[\"a:1\"]}\r\n")
        #expect(client.info?.urls == ["a:1"])
        client.receive("INFO {\"ldm\":true}\r\nINFO {\"ldm\":true}\r\n")
        #expect(client.events == ["info", "info, move", "info"])
        #expect(client.isReady && client.info?.isLameDuck == true)
    }

    @Test func errorsAreReported() {
        let client = Client.ready()
        client.receive("-ERR 'Permissions Violation for Publish to \"a\"'\r\n-ERR 'Invalid Subject'\r\n")
        #expect(client.events == [#"refused publishDenied(subject: "a")"#, #"refused unknown("Invalid Subject")"#])
        client.receive("-ERR 'Maximum Payload Violation'\r\nPING\r\n")
        #expect(client.events.last?.hasPrefix("failed too-large: ") == true)
        #expect(client.events.last?.hasSuffix("(maxPayload)") == true && client.isEnded)
    }
}
