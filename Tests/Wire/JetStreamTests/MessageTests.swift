// Messages of a stream, republished and read directly.

import Bytes
import CAllocations
import NATS
import Testing

@testable import JetStream

@Suite struct MessageTests {
    private let first = "FB_1 fb.p.-.t 1 1795794864177327246 n.1 hello"

    @Test func republishedMessagesHaveTheirPlaceAndTime() throws {
        #expect(try read(Captured.republished, "hello") { try describe(JetStreamMessage($0)) } == first)
    }

    @Test func directGetsAreAnsweredInParts() throws {
        func item(_ block: String, _ payload: String = "") throws -> String {
            try read(block, payload) { try describe(DirectGetItem($0)) }
        }
        #expect(try item(Captured.direct, "hello") == first)
        #expect(try item(Captured.directEnd) == "end")
        #expect(try item(Captured.directNone) == "not found")
        #expect(try item(Captured.directBad) == "failed false")
        #expect(try item(Captured.noResponders) == "failed true")
        #expect(throws: JetStreamError.self) { try item("NATS/1.0\r\n\r\n") }
        #expect(throws: JetStreamError.self) { try item("") }
        #expect(throws: JetStreamError.self) { try read("{}", DirectGetItem.init) }
    }

    /// As the server passed them on, and a status that it would have removed.
    @Test(arguments: [
        "NATS/1.0\r\nNats-Sequence: 99\r\nNats-Stream: EVIL\r\nNats-Time-Stamp: x\r\nNats-Subject: y\r\n",
        "NATS/1.0\r\nno colon\r\n", "garba", "NATS/1.0 404\r\nA: b\r\n", "Nats-Stream: EVIL", "\r\n\r\n",
    ])
    func publishersCannotForgeOrBreakWhatTheServerAdds(_ published: String) throws {
        let block =
            published
            + Captured.block([
                "Nats-Stream: FB_1", "Nats-Subject: fb.p.-.t", "Nats-Sequence: 3",
                "Nats-Time-Stamp: 2026-11-27T15:58:13.546396357Z", "Nats-Last-Sequence: 2",
            ])
        let expected = "FB_1 fb.p.-.t 3 1795795093546396357 - x"
        #expect(try read(block, "x") { try describe(JetStreamMessage($0)) } == expected)
        #expect(try read(block, "x") { try describe(DirectGetItem($0)) } == expected)
    }

    /// A message shows the publisher's headers, unless they are malformed.
    @Test(
        arguments: [
            ("NATS/1.0\r\n", 0), ("NATS/1.0\r\nA: b\r\nC: d\r\n", 2), ("NATS/1.0 404 none\r\nA: b\r\n", 1),
            ("NATS/1.0\r\n\r\n", nil), ("NATS/1.0\r\nA: b\r\n\r\n", nil), ("NATS/1.0\r\nA: b\r\n\r\nC: d\r\n", nil),
            ("NATS/1.0\r\nA: b", nil), ("NATS/1.0\r\nno colon\r\n", nil), ("NATS/1.0\r\nA\r: b\r\n", nil),
            ("NATS/1.0\r\nA: b\n", nil), ("NATS/1.0\r\nA: \(String(repeating: "x", count: 200))\r\n", 1), ("", nil),
        ] as [(String, Int?)])
    func publishersHeadersEndWhereTheServersBegin(_ published: String, _ count: Int?) throws {
        let block =
            published
            + Captured.block([
                "Nats-Stream: FB_1", "Nats-Subject: fb.p.-.t", "Nats-Sequence: 3",
                "Nats-Time-Stamp: 2026-11-27T15:58:13.546396357Z",
            ])
        #expect(try read(block, "") { try JetStreamMessage($0).headers?.count } == count)
    }

    @Test(arguments: [
        ("Nats-Stream: FB_1", "Nats-Stream: "), ("Nats-Stream", "Nats-Strea"), ("Nats-Subject", "nats-subject"),
        ("fb.p.-.t\r\nNats-Seq", "\r\nNats-Seq"), ("Sequence: 1\r\n", "Sequence: 0\r\n"),
        ("Sequence: 1\r\n", "Sequence: -1\r\n"),
        ("Sequence: 1\r\n", "Sequence: 9999999999999999999\r\n"), ("Sequence: 1\r\n", "Sequence: \r\n"),
        ("Time-Stamp", "Time"), ("2026-11", "2026-13"),
    ])
    func withoutThemAMessageIsMalformed(_ old: String, _ new: String) throws {
        let parts = Captured.republished.split(separator: old, maxSplits: 1, omittingEmptySubsequences: false)
        try #require(parts.count == 2)
        let found = try #require(throws: JetStreamError.self) {
            try read(parts.joined(separator: new), "") { _ = try JetStreamMessage($0) }
        }
        #expect(found.kind == .malformed)
    }

    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.000000001Z", 1),
            ("2000-02-29T00:00:00Z", 951_782_400_000_000_000),
            ("2026-11-27T15:54:24.5Z", 1_795_794_864_500_000_000), ("2262-04-11T23:47:16.854775807Z", .max),
            ("2262-04-11T23:47:16.854775808Z", nil), ("9999-12-31T23:59:59Z", nil),
            ("1969-12-31T23:59:59.999999999Z", nil),
            ("0001-01-01T00:00:00Z", nil), ("0000-01-01T00:00:00Z", nil), ("2026-02-29T00:00:00Z", nil),
            ("2026-00-01T00:00:00Z", nil),
            ("2026-01-00T00:00:00Z", nil), ("2026-01-01T24:00:00Z", nil), ("2026-01-01T00:60:00Z", nil),
            ("2026-01-01T00:00:60Z", nil),
            ("2026-01-01T00:00:00", nil), ("2026-01-01T00:00:00+01:00", nil), ("2026-01-01T00:00:00.Z", nil),
            ("2026-01-01T00:00:00.1234567890Z", nil), ("2026-01-01T00:00:00,1Z", nil), ("2026-01-01 00:00:00Z", nil),
            ("2026-01-01T00:00:0:Z", nil), ("", nil), ("Z", nil),
        ] as [(String, Int64?)])
    func timesAreNanosecondsSince1970(_ text: String, _ time: Int64?) {
        #expect(Array(text.utf8).withUnsafeBytes(ServerTime.parse) == time)
    }

    @Test func readingAMessageDoesNotAllocate() throws {
        guard allocation_counted() else { return }
        read(Captured.direct, "hello") { message in
            let before = allocation_count()
            var sum: UInt64 = 0
            for _ in 0..<100 {
                if case .message(let found)? = try? DirectGetItem(message) { sum += found.sequence }
            }
            let allocations = allocation_count() - before
            #expect(sum == 100 && allocations == 0)
        }
    }
}
