// RepublishedTests: messages with headers are found however the stream is split.

import Testing

@testable import Bench

struct RepublishedTests {
    private static func message(_ payload: String, header: String) -> String {
        let head = "NATS/1.0\r\nNats-Sequence: \(header)\r\n\r\n"
        let (size, whole) = (head.utf8.count, head.utf8.count + payload.utf8.count)
        return "HMSG live.bench0 1 \(size) \(whole)\r\n\(head)\(payload)\r\n"
    }

    private static func read(
        _ text: String, cut: Int, comparing: Bool
    ) throws -> (count: Int, stamps: [UInt64]) {
        let bytes = Array(text.utf8)
        var reader = RepublishedReader(payload: 10)
        var (count, stamps): (Int, [UInt64]) = (0, [])
        for start in stride(from: 0, to: bytes.count, by: cut) {
            let part = Array(bytes[start..<min(start + cut, bytes.count)])
            count += try part.withUnsafeBytes { part in
                try reader.take(part, comparing: comparing) { stamps.append($0) }
            }
        }
        #expect(reader.replies.isEmpty)
        return (count, stamps)
    }

    @Test func everyCutFindsEveryMessage() throws {
        let xs = String(repeating: "x", count: 10)
        let text =
            "+OK\r\n" + RepublishedTests.message(xs, header: "9") + "PING\r\n"
            + RepublishedTests.message(xs, header: "10") + RepublishedTests.message(xs, header: "HMSG 1 2")
        for cut in 1...text.utf8.count {
            for comparing in [false, true] {
                let found = try RepublishedTests.read(text, cut: cut, comparing: comparing)
                #expect(found.count == 3)
                #expect(found.stamps == [UInt64](repeating: 0x7878_7878_7878_7878, count: 3))
            }
        }
    }

    @Test func otherPayloadsAndErrorsAreReported() throws {
        let other = RepublishedTests.message("0123456789", header: "1")
        #expect(try RepublishedTests.read(other, cut: 7, comparing: false).stamps == [0x3031_3233_3435_3637])
        let wrong = [(other, true), (RepublishedTests.message("xx", header: "1"), false), ("-ERR 'no'\r\n", false)]
        for (text, comparing) in wrong {
            #expect(throws: BenchError.self) { try RepublishedTests.read(text, cut: 5, comparing: comparing) }
        }
    }
}
