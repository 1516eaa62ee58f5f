// Outgoing messages: entries as Python writes them, and metadata carried from protocol to protocol.

import Bytes
import ForebayWire
import RSocket
import Testing

@testable import HTTP2

/// Composite metadata of entries by id or name.
private func composite(_ entries: [(key: Key, content: [UInt8])]) -> [UInt8] {
    written { out in
        for (key, content) in entries {
            content.withUnsafeBytes { content in
                switch key {
                case .id(let id): CompositeMetadata.appendEntry(id: id, content, into: &out)
                case .name(let name): CompositeMetadata.appendEntry(name: name, content, into: &out)
                }
            }
        }
    }
}

private enum Key {
    case id(UInt8)
    case name(String)
}

/// The entry of a message; its size and its parts are checked too.
private func entry(_ sequence: UInt64, _ payload: [UInt8], _ timestamp: Int64, _ metadata: [UInt8] = []) -> [UInt8] {
    metadata.withUnsafeBytes { metadata in
        payload.withUnsafeBytes { payload in
            let entry = MessageEntry(
                sequence: sequence, timestamp: timestamp, payloadCount: payload.count, metadata: metadata)
            let guardBytes = 8
            let target = UnsafeMutableRawBufferPointer.allocate(byteCount: entry.size + guardBytes, alignment: 1)
            defer { target.deallocate() }
            target.initializeMemory(as: UInt8.self, repeating: 0xee)
            entry.write(payload, to: target.baseAddress!)
            #expect(target.suffix(guardBytes).allSatisfy { $0 == 0xee })
            // Head and tail written around an existing payload give the same bytes.
            let whole = Array(target.prefix(entry.size))
            target.initializeMemory(as: UInt8.self, repeating: 0xdd)
            let place = entry.writeHead(to: target.baseAddress!)
            if !payload.isEmpty { place.copyMemory(from: payload.baseAddress!, byteCount: payload.count) }
            let end = entry.writeTail(to: place + payload.count)
            #expect(end == target.baseAddress! + entry.size)
            #expect(Array(target.prefix(entry.size)) == whole)
            return whole
        }
    }
}

/// What a gRPC subscriber reads from a message with this metadata.
private func seen(_ metadata: [UInt8]) throws -> String {
    let entry = entry(1, [], 0, metadata)
    return try entry.withUnsafeBytes { bytes in
        var reader = ProtobufReader(bytes)
        guard case (1, .bytes(let inner))? = try reader.next() else { return "no message" }
        var message = PublishedMessage()
        try message.merge(inner)
        return ([message.contentType.text] + message.headers.map { "\($0.name.text)=\($0.value.text)" })
            .joined(separator: "|")
    }
}

@Suite struct MessageEntryTests {
    @Test func aResponseIsWhatPythonWrites() {
        let metadata = composite([
            (.id(0x7a), [0x80 | 0x21]), (.name(CarriedMetadata.headersMime), hex("0001 61 00000001 31")),
        ])
        let entries =
            entry(300, Array("4.1 C".utf8), 1_763_709_567_123_456_789, metadata) + entry(301, [], -1)
        let tail = SubscribeTail(
            outstandingCredit: SubscribeTail.unbounded, epoch: 6_616_333_571_386_961_933, dropped: 5)
        var bytes = [UInt8](repeating: 0, count: GRPCFraming.prefix + tail.size)
        bytes.withUnsafeMutableBytes {
            tail.writePrefix(entries: entries.count, to: $0.baseAddress!)
            tail.write(to: $0.baseAddress! + GRPCFraming.prefix)
        }
        bytes.insert(contentsOf: entries, at: GRPCFraming.prefix)
        // Written by Python's protobuf 7.36, except the prefix.
        let golden =
            "0a2808ac021205342e312043189586e8da9b90fdbc18220a746578742f706c61696e2a060a01611201310a0e08ad0218"
            + "ffffffffffffffffff0110ffffffff07188de08bf0c08afce85b2005"
        #expect(hex(bytes) == "00000000" + hex([UInt8(golden.count / 2)]) + golden)
    }

    @Test func aResponseWithoutMessagesIsItsTail() throws {
        let none = SubscribeTail(outstandingCredit: 0, epoch: 0, dropped: 0)
        #expect(try message { none.append(to: &$0) } == [])
        let most = SubscribeTail(outstandingCredit: .max, epoch: .max, dropped: .max, nextSequence: .max)
        #expect(try message { most.append(to: &$0) }.count == SubscribeTail.largest)
        #expect(most.size == SubscribeTail.largest)
    }

    @Test(arguments: [
        (nil, "32060a04742e6575"),
        ("topic failed: no", "32180a04742e65751210746f706963206661696c65643a206e6f"),
    ]) func aTopicsEndIsWhatPythonWrites(_ failure: String?, _ golden: String) throws {
        let end = EndNotice(topic: "t.eu", epoch: .max, failure: failure, dropped: 5, restarts: false)
        let bytes = try message { end.append(outstandingCredit: 7, to: &$0) }
        #expect(hex(bytes) == "100718ffffffffffffffffff012005" + golden)
        try bytes.withUnsafeBytes { bytes in
            var response = try ReceivedMessages(bytes)
            #expect(response.ended == end && response.outstandingCredit == 7)
            #expect(try response.next() == nil)
        }
    }

    @Test func everyPayloadSizeFits() throws {
        for count in [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 70_000] {
            for sequence in [1, 127, 128, UInt64.max] {
                let payload = [UInt8](repeating: 0x55, count: count)
                let bytes = entry(sequence, payload, Int64.min)
                try bytes.withUnsafeBytes { bytes in
                    var outer = ProtobufReader(bytes)
                    guard case (1, .bytes(let inner))? = try outer.next() else {
                        Issue.record("no message")
                        return
                    }
                    #expect(try outer.next() == nil)
                    var message = PublishedMessage()
                    try message.merge(inner)
                    #expect(message.payload.count == count)
                }
            }
        }
    }
}

@Suite struct MessageHeadersTests {
    @Test(
        arguments: [
            // Data MIME types: by id, spelt out, by the entry's name; only the first counts.
            ([(Key.id(0x7a), hex("85"))], "application/json"),
            ([(.id(0x7a), hex("00 61"))], "a"),
            ([(.name("Message/x.RSocket.mime-type.v0"), hex("a1"))], "text/plain"),
            (
                [(.id(0x7a), hex("85")), (.id(0x7a), hex("00 61"))],
                "application/json|message/x.rsocket.mime-type.v0=\u{0}a"
            ),
            // An invalid data MIME type becomes a header: an unknown id, a wrong length, non-ASCII bytes.
            ([(.id(0x7a), hex("e9"))], "|message/x.rsocket.mime-type.v0-bin=6Q"),
            ([(.id(0x7a), Array("text/plain".utf8))], "|message/x.rsocket.mime-type.v0=text/plain"),
            ([(.id(0x7a), [])], "|message/x.rsocket.mime-type.v0="),
            ([(.id(0x7a), hex("01 c3b8"))], "|message/x.rsocket.mime-type.v0=\u{1}ø"),
            // Other entries: by id, by an id without a name, by name, text and binary.
            ([(.id(0x7d), hex("80ff00"))], "|message/x.rsocket.tracing-zipkin.v0-bin=gP8A"),
            ([(.id(0x3b), hex("61"))], "|0x3b=a"),
            ([(.id(0x3b), hex("ffff"))], "|0x3b-bin=//8"),
            ([(.id(0x2a), [])], "|application/x-flatbuffers="),
            ([(.name("x/trace"), Array("søk".utf8)), (.name("x/y"), hex("fb"))], "|x/trace=søk|x/y-bin=+w"),
            // Headers: in order, a value that is not text, several entries, no header at all.
            ([(.name("application/vnd.forebay.headers"), hex("0001 61 00000001 31 0000 00000000"))], "|a=1|="),
            ([(.name("Application/VND.forebay.headers"), hex("0001 61 00000002 fffe"))], "|a-bin=//4"),
            (
                [
                    (.name("application/vnd.forebay.headers"), hex("0001 61 00000001 31")),
                    (.id(0x7a), hex("a1")),
                    (.name("application/vnd.forebay.headers"), hex("0001 62 00000001 32")),
                ], "text/plain|a=1|b=2"
            ),
            ([(.name("application/vnd.forebay.headers"), [])], ""),
            // Invalid headers: truncated, with a name that is not text.
            ([(.name("application/vnd.forebay.headers"), hex("00"))], "|application/vnd.forebay.headers=\u{0}"),
            (
                [(.name("application/vnd.forebay.headers"), hex("0001 61 ffffffff 31"))],
                "|application/vnd.forebay.headers-bin=AAFh/////zE"
            ),
            (
                [(.name("application/vnd.forebay.headers"), hex("0001 ff 00000000"))],
                "|application/vnd.forebay.headers-bin=AAH/AAAAAA"
            ),
        ] as [([(Key, [UInt8])], String)])
    private func metadataOfRSocketPublishers(entries: [(Key, [UInt8])], expected: String) throws {
        #expect(try seen(composite(entries.map { (key: $0.0, content: $0.1) })) == expected)
    }

    @Test func anEntryNamedByNoTextIsUnnamed() throws {
        #expect(try seen([0x00, 0xff, 0, 0, 1, 0x61]) == "|unnamed=a")
    }

    @Test func everyBeginningOfMetadataIsTaken() throws {
        let metadata = composite([
            (.id(0x7a), hex("a1")), (.name(CarriedMetadata.headersMime), hex("0001 61 00000001 31")),
            (.id(0x3b), hex("ff")),
        ])
        try forEachPrefix(metadata) { _ = try seen(Array($0)) }
        var random = Repeatable(seed: 4)
        for _ in 0..<5000 { #expect(try !seen(random.mutate(metadata)).contains("\u{fffd}")) }
    }

    /// The metadata encoded for a message's content type and headers.
    private func metadata(_ message: [UInt8], limit: Int = 65_536) throws(GRPCError) -> [UInt8] {
        try inMemory(message) { (bytes) throws(GRPCError) in
            var message = PublishedMessage()
            try message.merge(bytes)
            let count = try MessageHeaders.metadataCount(of: message, limit: limit)
            let metadata = written { MessageHeaders.appendMetadata(of: message, into: &$0) }
            #expect(metadata.count == count)
            return metadata
        }
    }

    @Test func contentTypesAndHeadersBecomeEntries() throws {
        #expect(try metadata([]) == [])
        #expect(try metadata(hex("120161")) == [])
        let plain = written { $0.append(field: 4, "text/plain") }
        #expect(try hex(metadata(plain)) == "fa000001a1")
        let own = written { $0.append(field: 4, "a/b") }
        #expect(try hex(metadata(own)) == "fa00000402612f62")
        let headers = hex("2a060a0161120131 2a00")
        #expect(
            try metadata(headers)
                == [UInt8(CarriedMetadata.headersMime.utf8.count - 1)] + Array(CarriedMetadata.headersMime.utf8)
                + hex("00000e 0001 61 00000001 31 0000 00000000"))
    }

    @Test func whatGoesInComesOut() throws {
        for text in [
            "", "text/plain|a=1", "a/b", "|=", "|a=1|a=2|søk=blå",
            "application/x-flatbuffers|" + String(repeating: "x", count: 300) + "=y",
        ] {
            let parts = text.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
            let message = written { out in
                out.append(field: 4, parts[0])
                for header in parts.dropFirst() {
                    let pair = header.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
                    out.append(field: 5) {
                        $0.append(field: 1, pair[0])
                        $0.append(field: 2, pair[1])
                    }
                }
            }
            #expect(try seen(metadata(message)) == text)
        }
    }

    @Test func contentTypesAndHeadersAreLimited() throws {
        func type(_ text: String) -> [UInt8] { written { $0.append(field: 4, text) } }
        let longest = String(repeating: "t", count: 128)
        #expect(try metadata(type(longest)).count == 4 + 1 + 128)
        for text in [longest + "t", "text/søk", "a\n"] {
            #expect(refusal { () throws(GRPCError) in _ = try metadata(type(text)) }?.status == .invalidArgument)
        }
        #expect(try metadata(type("text/plain"), limit: 5).count == 5)
        let error = refusal { () throws(GRPCError) in _ = try metadata(type("text/plain"), limit: 4) }
        #expect(error?.status == .resourceExhausted)
        func header(_ count: Int) -> [UInt8] {
            written { $0.append(field: 5) { $0.append(field: 1, String(repeating: "n", count: count)) } }
        }
        let most = Int(UInt16.max)
        #expect(
            try metadata(header(most), limit: 100_000).count == 4 + CarriedMetadata.headersMime.utf8.count + 6 + most)
        #expect(
            refusal { () throws(GRPCError) in _ = try metadata(header(most + 1), limit: 100_000) }?.status
                == .resourceExhausted)
    }

    @Test(arguments: [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")])
    func base64IsThatOfTheStandardWithoutPadding(text: String, expected: String) {
        let bytes = Array(text.utf8)
        let out = [UInt8](unsafeUninitializedCapacity: 16) { buffer, count in
            var writer = RawWriter(UnsafeMutableRawPointer(buffer.baseAddress!))
            bytes.withUnsafeBytes { writer.put(base64: $0, isPadded: false) }
            count = UnsafeMutableRawPointer(buffer.baseAddress!).distance(to: writer.end)
        }
        #expect(String(decoding: out, as: UTF8.self) == expected)
        #expect(Base64.size(bytes.count, isPadded: false) == out.count)
    }
}

// Written by Python's protobuf 7.36.
@Suite struct ResponseTests {
    @Test func publishersGetWhatPythonWrites() throws {
        let response = PublishResponse(grantedCredit: 1024, acknowledgedSequence: .max, acceptedCount: 3)
        #expect(try hex(message { response.append(to: &$0) }) == "08800810ffffffffffffffffff011803")
        let one = PublishOneResponse(sequence: 42, epoch: 1 << 63)
        #expect(try hex(message { one.append(to: &$0) }) == "082a1080808080808080808001")
        let nothing = PublishResponse(grantedCredit: 0, acknowledgedSequence: 0, acceptedCount: 0)
        #expect(try message { nothing.append(to: &$0) } == [])
    }

    @Test func controlCallsGetWhatPythonWrites() throws {
        let info = InfoResponse(
            json: #"{"name":"forebay"}"#, version: "0.1.0", number: 1, features: ["opening", "resume"])
        #expect(
            try hex(message { info.append(to: &$0) }) == "0a127b226e616d65223a22666f7265626179227d1205302e312e301801"
                + "22076f70656e696e672206726573756d65")
        let topic = TopicRow(
            json: "{}", name: "a.b", epoch: 7, state: .failed, error: "no sensor", firstSequence: 1, nextSequence: 400)
        #expect(
            try hex(message { topic.append(to: &$0) })
                == "0a027b7d1203612e62180720032a096e6f2073656e736f723001389003")
        let subscription = SubscriptionRow(json: "{}", id: 17, topic: "a.b", connection: "0-3-1")
        #expect(try hex(message { subscription.append(to: &$0) }) == "0a027b7d10111a03612e622205302d332d31")
        let connection = ConnectionRow(json: "{}", id: "0-3-1", peer: "127.0.0.1:50312")
        #expect(
            try hex(message { connection.append(to: &$0) })
                == "0a027b7d1205302d332d311a0f3132372e302e302e313a3530333132")
    }

    @Test func messagesFollowOneAnotherInABuffer() {
        let bytes = written {
            PublishOneResponse(sequence: 1, epoch: 0).append(to: &$0)
            Health.append(.serving, to: &$0)
        }
        #expect(hex(bytes) == "0000000002" + "0801" + "0000000002" + "0801")
    }
}
