// Content type and headers in composite metadata, encoded and decoded, and in metadata that other programs wrote.

import Bytes
import RSocket
import Testing

@testable import HTTP2

struct CarriedItemsTests {
    private func read(_ metadata: [UInt8]) -> (type: String?, headers: [String]) {
        metadata.withUnsafeBytes {
            var items = CarriedItems($0)
            var type: String?
            var headers: [String] = []
            while let item = items.next() {
                switch item {
                case .contentType(let bytes):
                    #expect(type == nil)
                    type = bytes.text
                case .header(let header):
                    var bytes = [UInt8](repeating: 0, count: header.jsonSize)
                    bytes.withUnsafeMutableBytes {
                        var writer = RawWriter($0.baseAddress!)
                        header.writeJSON(to: &writer)
                        #expect(writer.end == $0.baseAddress! + $0.count)
                    }
                    headers.append(text(bytes))
                }
            }
            #expect(type == CarriedItems.contentType(of: $0)?.text)
            return (type, headers)
        }
    }

    @Test(arguments: [
        "text/plain", "application/json", "application/avro", "application/x-flatbuffers", "video/H264",
        "text/plain; charset=utf-8", "x/" + String(repeating: "y", count: 126), "a",
    ])
    func contentTypesComeBack(type: String) {
        let metadata = written { append(contentType: type, into: &$0) }
        #expect(read(metadata).type == type)
    }

    @Test func wellKnownTypesTakeAByte() {
        #expect(written { append(contentType: "text/plain", into: &$0) } == [0xFA, 0, 0, 1, 0xA1])
        #expect(written { append(contentType: "application/json", into: &$0) } == [0xFA, 0, 0, 1, 0x85])
        #expect(
            written { append(contentType: "x/y", into: &$0) } == [0xFA, 0, 0, 4, 2, 0x78, 0x2F, 0x79])
    }

    @Test func headersComeBack() {
        let call = PublishCall(
            topic: "t", contentType: "text/csv",
            headers: [PlainHeader("a", ""), PlainHeader("trace", "é\n"), PlainHeader("", "x")])
        let metadata = written {
            CompositeMetadata.appendEntry(
                name: "application/other", UnsafeRawBufferPointer(start: nil, count: 0), into: &$0)
            call.appendMetadata(into: &$0)
            append(headers: [PlainHeader("second", "entry")], into: &$0)
            append(contentType: "text/plain", into: &$0)
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
                rows.withUnsafeBytes {
                    CompositeMetadata.appendEntry(name: CarriedMetadata.headersMime, $0, into: &out)
                }
            }
        }
        #expect(read(entry([0, 1, 0x61, 0, 0, 0, 1, 0x62])).headers == ["\"a\":\"b\""])
        #expect(read(entry([0, 1, 0x61, 0, 0, 0, 3, 0xFF, 0, 1])).headers == ["\"a-bin\":\"/wAB\""])
        #expect(read(entry([])).headers == [])
        // Headers that cannot be parsed are passed on like any other entry.
        let mime = CarriedMetadata.headersMime
        #expect(
            read(entry([0, 1, 0x61, 0, 0, 0, 2, 0x62])).headers == [
                "\"\(mime)\":\"\\u0000\\u0001a\\u0000\\u0000\\u0000\\u0002b\""
            ])
        #expect(read(entry([0, 1, 0xFF, 0, 0, 0, 0])).headers == ["\"\(mime)-bin\":\"AAH/AAAAAA\""])
        #expect(read(entry([0xFF, 0xFF, 0xFF])).headers == ["\"\(mime)-bin\":\"////\""])
        // MIME types are case-insensitive.
        #expect(
            read(
                written {
                    CompositeMetadata.appendHead(name: mime.uppercased(), count: 8, into: &$0)
                    $0.append([0, 1, 0x61, 0, 0, 0, 1, 0x62])
                    CompositeMetadata.appendHead(name: "Message/X.rsocket.mime-type.v0", count: 1, into: &$0)
                    $0.append([0xA1])
                }) == ("text/plain", ["\"a\":\"b\""]))
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
