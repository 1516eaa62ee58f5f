// Header blocks of messages, read and written.

import Bytes
import ForebayWire
import Testing

@testable import NATS

@Suite struct NATSHeadersTests {
    private func read(_ block: String) throws -> [String] {
        try withRaw(block) { bytes in
            let headers = try NATSHeaders(bytes)
            var lines = [
                "\(headers.status.map(String.init) ?? "-") '\(text(headers.statusText))' \(headers.count)"
            ]
            headers.forEach { lines.append("\(text($0))=\(text($1))") }
            return lines
        }
    }

    @Test func blocksHaveTheirMeaning() throws {
        #expect(try read("NATS/1.0\r\n\r\n") == ["- '' 0"])
        #expect(try read("NATS/1.0 503\r\n\r\n") == ["503 '' 0"])
        #expect(try read("NATS/1.0 404 Message Not Found\r\n\r\n") == ["404 'Message Not Found' 0"])
        #expect(try read("NATS/1.0  408\t Request  Timeout \r\nA:b\r\n\r\n") == ["408 'Request  Timeout' 1", "A=b"])
        #expect(
            try read("NATS/1.0\r\nA:1\r\na: \t2 \r\nA:\r\nB::\r\n: nobody\r\n\r\n")
                == ["- '' 4", "A=1", "a=2", "A=", "B=:"])
    }

    @Test func theFirstValueIsFound() throws {
        try withRaw("NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n") { bytes in
            let headers = try NATSHeaders(bytes)
            #expect(headers["A"].map(text) == "1")
            #expect(headers["a"] == nil && headers["AB"] == nil)
        }
    }

    @Test(arguments: [
        "", "\r\n", "NATS/1.0", "NATS/1.0\r\n", "NATS/1.1\r\n\r\n", "nats/1.0\r\n\r\n", "NATS/1.0x\r\n\r\n",
        "NATS/1.0 50\r\n\r\n", "NATS/1.0 abc\r\n\r\n", "NATS/1.0 5031\r\n\r\n", "NATS/1.0\r\nA\r\n\r\n",
        "NATS/1.0\r\nA: 1\r\n", "NATS/1.0\r\n\r\nA: 1\r\n\r\n", "NATS/1.0\r\nA: \r1\r\n\r\n", "NATS/1.0\nA: 1\n\n",
        "NATS/1.0\r\nA: 1\n2\r\n\r\n",
    ])
    func malformedBlocksAreFaultsOfTheMessage(block: String) {
        #expect {
            _ = try read(block)
        } throws: {
            ($0 as? NATSError)?.scope == .message
        }
    }

    @Test func theNumberOfHeadersIsLimited() throws {
        let most = String(repeating: "A:\r\n", count: NATSLimits.maxHeaders)
        #expect(try read("NATS/1.0\r\n\(most)\r\n").count == NATSLimits.maxHeaders + 1)
        #expect(throws: NATSError.self) { _ = try read("NATS/1.0\r\n\(most)A:\r\n\r\n") }
    }

    @Test func valuesCannotAddHeaders() {
        var block = NATSHeaderBlock()
        for (name, value) in [
            ("A", "1\r\nB: 2"), ("A", "1\n"), ("A", "\r"), ("A", "\u{0}"), ("", "1"), ("A:", "1"), ("A B", "1"),
            ("A\r\n", "1"), ("Ä", "1"),
        ] {
            #expect(throws: NATSError.self) { try block.append(name, value) }
        }
        #expect(block.count == 0 && block.size == 12)
    }

    @Test func theBlockIsLimitedAndReusable() throws {
        var block = NATSHeaderBlock()
        try block.append("A", String(repeating: "x", count: NATSLimits.maxHeaderBlock - 12 - 5))
        #expect(block.size == NATSLimits.maxHeaderBlock)
        #expect {
            try block.append("B", "")
        } throws: {
            ($0 as? NATSError)?.word == ErrorWord.tooLarge
        }
        block.removeAll()
        for _ in 0..<NATSLimits.maxHeaders { try block.append("B", "") }
        #expect(throws: NATSError.self) { try block.append("B", "") }
    }
}
