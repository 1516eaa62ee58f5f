// Content type and headers in composite metadata, there and back, and in metadata that others wrote.

import Bytes
import RSocket
import Testing

@testable import HTTP2

struct CarriedEntriesTests {
    private func read(_ metadata: [UInt8]) -> (type: String?, headers: [String]) {
        metadata.withUnsafeBytes {
            let entries = CarriedEntries($0)
            return (
                entries.contentType.map { String(decoding: $0, as: UTF8.self) },
                entries.headers.map { row in
                    var bytes = [UInt8](repeating: 0, count: row.size)
                    bytes.withUnsafeMutableBytes {
                        var writer = RawWriter($0.baseAddress!)
                        row.write(to: &writer)
                        #expect(writer.place == $0.baseAddress! + $0.count)
                    }
                    return text(bytes)
                }
            )
        }
    }

    @Test(arguments: [
        "text/plain", "application/json", "application/avro", "application/x-flatbuffers", "video/H264",
        "text/plain; charset=utf-8", "x/" + String(repeating: "y", count: 126), "a",
    ])
    func contentTypesComeBack(type: String) {
        let metadata = written { CarriedEntries.append(contentType: type, into: &$0) }
        #expect(read(metadata).type == type)
    }

    @Test func wellKnownTypesTakeAByte() {
        #expect(written { CarriedEntries.append(contentType: "text/plain", into: &$0) } == [0xFA, 0, 0, 1, 0xA1])
        #expect(written { CarriedEntries.append(contentType: "application/json", into: &$0) } == [0xFA, 0, 0, 1, 0x85])
        #expect(
            written { CarriedEntries.append(contentType: "x/y", into: &$0) } == [0xFA, 0, 0, 4, 2, 0x78, 0x2F, 0x79])
    }

    @Test func headersComeBack() {
        let call = PublishCall(
            topic: "t", contentType: "text/csv",
            headers: [PlainHeader("a", ""), PlainHeader("trace", "é\n"), PlainHeader("", "x")])
        let metadata = written {
            CompositeMetadata.appendEntry(
                name: "application/other", UnsafeRawBufferPointer(start: nil, count: 0), into: &$0)
            call.appendMetadata(into: &$0)
            CarriedEntries.append(headers: [PlainHeader("second", "entry")], into: &$0)
            CarriedEntries.append(contentType: "text/plain", into: &$0)
        }
        #expect(read(metadata).type == "text/csv")
        #expect(
            read(metadata).headers == [
                "\"application/other\":\"\"", "\"a\":\"\"", "\"trace\":\"é\\n\"", "\"\":\"x\"",
                "\"second\":\"entry\"", "\"message/x.rsocket.mime-type.v0-bin\":\"oQ\"",
            ])
    }

    @Test(
        arguments: [
            [], [0xFA], [0xFA, 0, 0, 0], [0xFA, 0, 0, 1, 0xBB], [0xFA, 0, 0, 2, 2, 0x61], [0xFA, 0, 0, 2, 0xA1, 0],
            [0xFA, 0, 0, 2, 0, 0x0A],
            [0xFA, 0, 0, 2, 0, 0xE9], [0xFA, 0, 0, 5, 0xA1],
        ] as [[UInt8]])
    func typesThatCannotBeReadAreNone(metadata: [UInt8]) {
        #expect(read(metadata).type == nil)
    }

    @Test func otherEntriesAreHeaders() {
        func entry(_ rows: [UInt8]) -> [UInt8] {
            written { out in
                rows.withUnsafeBytes { CompositeMetadata.appendEntry(name: CarriedEntries.headersMime, $0, into: &out) }
            }
        }
        #expect(read(entry([0, 1, 0x61, 0, 0, 0, 1, 0x62])).headers == ["\"a\":\"b\""])
        #expect(read(entry([0, 1, 0x61, 0, 0, 0, 3, 0xFF, 0, 1])).headers == ["\"a-bin\":\"/wAB\""])
        #expect(read(entry([])).headers == [])
        // What cannot be read as rows is told as any other entry.
        let mime = CarriedEntries.headersMime
        #expect(
            read(entry([0, 1, 0x61, 0, 0, 0, 2, 0x62])).headers == [
                "\"\(mime)\":\"\\u0000\\u0001a\\u0000\\u0000\\u0000\\u0002b\""
            ])
        #expect(read(entry([0, 1, 0xFF, 0, 0, 0, 0])).headers == ["\"\(mime)-bin\":\"AAH/AAAAAA\""])
        #expect(read(entry([0xFF, 0xFF, 0xFF])).headers == ["\"\(mime)-bin\":\"////\""])
        #expect(read([0xBB, 0, 0, 1, 0x78]).headers == ["\"0x3b\":\"x\""])
        #expect(read([0xFD, 0, 0, 1, 0x78]).headers == ["\"message/x.rsocket.tracing-zipkin.v0\":\"x\""])
        #expect(read([0x00, 0xFF, 0, 0, 1, 0x78]).headers == ["\"unnamed\":\"x\""])
        #expect(read([0x00, 0x22, 0, 0, 1, 0x22]).headers == ["\"\\\"\":\"\\\"\""])
    }

    /// A record stays valid whatever metadata a publisher sends.
    @Test func damagedMetadataLeavesRecordsValid() throws {
        var random = PlainRandom(21)
        let whole = written {
            PublishCall(topic: "t", contentType: "x/y", headers: [PlainHeader("a", "\"b\""), PlainHeader("c", "d")])
                .appendMetadata(into: &$0)
        }
        var complete = 0
        for _ in 0..<2000 {
            var sample = Sample("x")
            sample.metadata = whole
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                sample.metadata[Int.random(in: 0..<whole.count, using: &random)] = UInt8.random(
                    in: 0...255, using: &random)
            }
            if random.next() % 4 == 0 { sample.metadata.removeLast(Int.random(in: 0...whole.count, using: &random)) }
            let object = try json(try #require(sample.record(.jsonLines)))
            #expect(object["payload"] as? String == "x")
            complete += (object["headers"] as? [String: String])?.count == 2 ? 1 : 0
        }
        #expect(complete > 100 && complete < 1900)
    }
}
