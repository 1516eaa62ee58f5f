// Bytes of a server, and the operations that they mean.

import Bytes
import CAllocations
import Testing

@testable import NATS

@Suite struct NATSParserTests {
    static let golden: [(bytes: String, lines: [String])] = [
        ("PING\r\n", ["ping"]), ("pong\r\n", ["pong"]), ("+OK\r\n", ["ok"]), ("+ok \r\n", ["ok"]),
        ("-ERR 'Stale Connection'\r\n", ["error Stale Connection"]), ("-err\tx\r\n", ["error x"]),
        ("INFO {\"a\":1} \r\n", ["info {\"a\":1}"]),
        ("MSG a.b 9 0\r\n\r\n", ["message a.b 9 payload="]),
        ("MSG a.b 9 5\r\nhello\r\n", ["message a.b 9 payload=hello"]),
        ("msg a 1 _INBOX.x 2\r\n\r\n\r\n", ["message a 1 reply=_INBOX.x payload=\r\n"]),
        ("MsG \t a  1\t3 \r\nxyz\r\n", ["message a 1 payload=xyz"]),
        (
            "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
            ["message a 1 headers=NATS/1.0\r\n\r\n payload=hi"]
        ),
        (
            "HMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n",
            ["message a 1 reply=r headers=NATS/1.0\r\n\r\n payload=", "ping"]
        ),
        ("HMSG a 1 0 2\r\nhi\r\n", ["message a 1 headers= payload=hi"]),
        ("PING\r\nMSG a 1 1\r\n\n\r\nPONG\r\n+OK\r\n", ["ping", "message a 1 payload=\n", "pong", "ok"]),
    ]

    @Test(arguments: golden) func operationsHaveTheirMeaning(bytes: String, lines: [String]) {
        #expect(parsed(bytes) == lines)
    }

    static let broken = [
        "\r\n", "PING\n", "\n", "HTTP/1.1 400 Bad Request\r\n", "PINGX\r\n", "MSG\r\n", "MSG a\r\n", "MSG a 1\r\n",
        "MSG a x 1\r\n", "MSG a 1 x\r\n", "MSG a 1 r 1 1\r\n", "MSG a 1 -1\r\n", "MSG a 1 +1\r\n", "MSG a  1\r\n",
        "HMSG a 1 1\r\n", "HMSG a 1 3 2\r\n", "HMSG a 1 r x 2\r\n", "HMSG a 1 r 1 2 3\r\n", "HMSG a 1 1 x\r\n",
        "MSG a 99999999999999999999 1\r\n", "MSG a 1 1\r\nxPI", "MSG a 1 1\r\nx\n\r", "SUB a 1\r\n",
    ]

    @Test(arguments: broken) func brokenBytesEndTheConnection(bytes: String) {
        let lines = parsed(bytes)
        #expect(lines.count == 1)
        #expect(lines.last?.hasPrefix("protocol: ") == true && lines.last?.hasSuffix("The connection ends.") == true)
        #expect(parsed(Array(bytes.utf8).indices.map { Array(bytes.utf8)[$0...$0] }) == lines)
    }

    @Test func everySplitGivesTheSameOperations() {
        let bytes = Array(Self.golden.map(\.bytes).joined().utf8)
        let lines = Self.golden.flatMap(\.lines)
        for first in bytes.indices {
            #expect(parsed([bytes[..<first], bytes[first...]]) == lines)
            let second = min(bytes.count, first + 1 + first % 7)
            #expect(parsed([bytes[..<first], bytes[first..<second], bytes[second...]]) == lines)
        }
        #expect(parsed(bytes.indices.map { bytes[$0...$0] }) == lines)
    }

    @Test func linesHaveLimits() {
        var limits = NATSLimits()
        limits.maxControlLine = 20
        limits.maxInfo = 40
        let long = String(repeating: "x", count: 16)
        #expect(parsed("-ERR \(long.dropLast())\r\n", limits: limits) == ["error \(long.dropLast())"])
        for rest in ["\r\n", "x"] {
            #expect(parsed("-ERR \(long)\(rest)", limits: limits).last?.hasPrefix("too-large: ") == true)
        }
        #expect(parsed("INFO {\(long)\(long)}\r\n", limits: limits) == ["info {\(long)\(long)}"])
        #expect(parsed("INFO {\(long)\(long)xx}\r\n", limits: limits).last?.hasPrefix("too-large: ") == true)
    }

    @Test func messagesHaveALimit() {
        var limits = NATSLimits()
        limits.maxMessage = 10
        #expect(parsed("MSG a 1 10\r\n0123456789\r\n", limits: limits).count == 1)
        #expect(parsed("MSG a 1 11\r\n", limits: limits).last?.hasPrefix("too-large: ") == true)
        #expect(parsed("HMSG a 1 1 11\r\n", limits: limits).last?.hasPrefix("too-large: ") == true)
        #expect(parsed("MSG a 1 999999999999999999\r\n").last?.hasPrefix("too-large: ") == true)
    }

    @Test func anErrorIsRepeatedAndReleasesTheMemory() {
        var parser = NATSParser()
        withRaw("MSG a 1 5\r\nab") { bytes in
            parser.feed(bytes)
            #expect(throws: Never.self) { if try parser.next() != nil { Issue.record("an operation") } }
        }
        #expect(parser.bufferedBytes > 0 && parser.hasUnread)
        withRaw("cdexx") { bytes in
            parser.feed(bytes)
            for _ in 0..<2 { #expect(throws: NATSError.self) { _ = try parser.next() } }
        }
        #expect(parser.bufferedBytes == 0 && !parser.hasUnread)
        withRaw("PING\r\n") { bytes in
            parser.feed(bytes)
            #expect(throws: NATSError.self) { _ = try parser.next() }
        }
    }

    @Test func aMessageInOnePieceIsReadInPlace() throws {
        var parser = NATSParser()
        try withRaw("MSG a 1 r 5\r\nhello\r\n") { bytes in
            parser.feed(bytes)
            guard case .message(let message) = try parser.next() else { throw NATSError.call(.invalid, "no message") }
            #expect(message.payload.baseAddress == bytes.baseAddress! + 13)
        }
        #expect(parser.bufferedBytes == 0)
    }

    @Test(.enabled(if: isCounted, "only an optimized build without a sanitizer can be counted"))
    func messagesAllocateNothing() throws {
        var parser = NATSParser()
        let message = "MSG prices.eur 12 5\r\nhello\r\nHMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"
        try withRaw(String(repeating: message, count: 100)) { bytes in
            let before = allocation_count()
            parser.feed(bytes)
            var count = 0
            while try parser.next() != nil { count += 1 }
            #expect(allocation_count() - before == 0)
            #expect(count == 200)
        }
    }
}

/// Whether allocations are counted. Unoptimized code allocates in each loop, and a sanitizer brings its own allocator.
private var isCounted: Bool {
    #if DEBUG
        false
    #else
        allocation_counted()
    #endif
}
