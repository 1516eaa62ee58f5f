// The client's messages: the bytes that Python's protobuf 7.36 writes for them, and how the broker's own codec reads
// and writes them.

import Bytes
import ForebayWire
import RSocket
import Testing

@testable import HTTP2

private enum GoldenResponse {
    /// Two messages, the first with every field; unbounded credit, 3 dropped.
    static let messages = hex(
        "0a2b08071205342e31204318ffffffffffffffffff01220a746578742f706c61696e2a090a047369746512016f0a020809"
            + "10ffffffff0718ffffffffffffffffff012003")
    static let first = hex("10051809")
    static let progress = hex("08ac0210808080808080808080011804")
    static let one = hex("082a1009")
    static let topic = hex("0a077b2261223a317d1201611803200130013802")
    static let all = [messages, first, progress, one, topic]
}

private func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite struct ClientCodecTests {
    // Requests

    @Test(arguments: [Golden.openFrom, Golden.openLast, Golden.openAll])
    func subscriptionsAsPythonWritesThem(bytes: [UInt8]) throws {
        guard case .open(let open) = try inMemory(bytes, SubscribeAction.parse) else {
            Issue.record("no open")
            return
        }
        #expect(try message { open.append(to: &$0) } == bytes)
    }

    @Test func otherRequestsAsPythonWritesThem() throws {
        let payload = Array("xy".utf8)
        try payload.withUnsafeBytes { (payload) throws -> Void in
            #expect(try message { ClientRequests.appendCredit(300, to: &$0) } == Golden.request)
            #expect(
                try message { ClientRequests.appendPublishOpen(topic: "a.b", completesTopic: true, to: &$0) }
                    == Golden.publishOpen)
            #expect(try message { ClientRequests.appendMessage(payload, to: &$0) } == hex("120412027879"))
            #expect(
                try message { ClientRequests.appendPublishOne(topic: "a.b", payload, to: &$0) }
                    == hex("0a03612e62120412027879"))
        }
        #expect(try message { ClientRequests.appendMessage(.nothing, to: &$0) } == Golden.publishEmpty)
        #expect(
            try message { ClientRequests.appendPublishOne(topic: "a.b", .nothing, to: &$0) } == hex("0a03612e621200"))
        #expect(try message { ClientRequests.appendHealthCheck(to: &$0) } == [])
    }

    @Test(arguments: [
        AdminRequest.call(.info), .call(.topicInfo("a")), .call(.completeTopic("b")),
        .call(.failTopic("c", message: "gone")), .call(.failTopic("c", message: nil)), .call(.deleteTopic("d")),
        .call(.closeConnection("0-1-2")), .call(.closeSubscription(7)), .list(.topics), .list(.subscriptions),
        .list(.connections), .call(.publisherInfo(topic: "a.b", publisher: "p 1")),
    ])
    func theBrokerReadsWhatTheClientAsks(request: AdminRequest) throws {
        let bytes = try message { request.append(to: &$0) }
        #expect(
            try inMemory(bytes) { (bytes) throws(GRPCError) in try AdminRequest.parse(bytes, of: request.method) }
                == request)
        if request == .call(.failTopic("c", message: "gone")) { #expect(bytes == hex("0a01631204676f6e65")) }
    }

    @Test func numbersAreSentAndRead() throws {
        let number = PublisherNumber(publisher: "p 1", number: 300)
        var published = PublishedMessage()
        let open = try message {
            ClientRequests.appendPublishOpen(topic: "t", completesTopic: false, number: number, to: &$0)
        }
        #expect(open == hex("0a0b 0a0174 1a03702031 20ac02"))
        let action = try inMemory(open) { (bytes) throws(GRPCError) in
            try PublishAction.parse(bytes, message: &published)
        }
        #expect(action == .open(topic: "t", completesTopic: false, number: number))
        let one = try message { ClientRequests.appendPublishOne(topic: "t", .nothing, number: number, to: &$0) }
        #expect(one == hex("0a0174 1200 1a03702031 20ac02"))
        let read = try inMemory(one) { (bytes) throws(GRPCError) in
            try PublishOneRequest.parse(bytes, message: &published)
        }
        #expect(read == ("t", number))
        let both = PublishResponse(grantedCredit: 1, acknowledgedSequence: 2, acceptedCount: 3, duplicate: true)
        let answer = try message { both.append(to: &$0) }
        #expect(answer == hex("0801 1002 1803 2001"))
        #expect(try inMemory(answer) { (bytes) throws(GRPCError) in try PublishResponse(bytes) } == both)
        let again = PublishOneResponse(sequence: 2, epoch: 9, duplicate: true)
        let single = try message { again.append(to: &$0) }
        #expect(single == hex("0802 1009 1801"))
        #expect(try inMemory(single) { (bytes) throws(GRPCError) in try PublishOneResponse(bytes) } == again)
    }

    @Test(arguments: ["1a0170", "2001", "1a00 2001", "1a0170 2000", "1a0170 20ffffffffffffffffff01"])
    func numbersOutOfBoundsAreRefused(fields: String) throws {
        var published = PublishedMessage()
        let opening = hex("0a0174 \(fields)")
        #expect(throws: GRPCError.self) {
            try inMemory([0x0A, UInt8(opening.count)] + opening) { (bytes) throws(GRPCError) in
                try PublishAction.parse(bytes, message: &published)
            }
        }
        #expect(throws: GRPCError.self) {
            try inMemory(opening) { (bytes) throws(GRPCError) in
                try PublishOneRequest.parse(bytes, message: &published)
            }
        }
    }

    @Test func payloadsOfAnySize() throws {
        for count in [0, 1, 126, 127, 128, 16_383, 16_384, 70_000] {
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let bytes = try message { out in
                payload.withUnsafeBytes { ClientRequests.appendMessage($0, to: &out) }
            }
            var published = PublishedMessage()
            try bytes.withUnsafeBytes { (bytes) throws -> Void in
                #expect(try PublishAction.parse(bytes, message: &published) == .message)
                #expect(published.payload.elementsEqual(payload))
            }
            let one = try message { out in
                payload.withUnsafeBytes { ClientRequests.appendPublishOne(topic: "t", $0, to: &out) }
            }
            try one.withUnsafeBytes { (bytes) throws -> Void in
                #expect(try PublishOneRequest.parse(bytes, message: &published) == ("t", nil))
                #expect(published.payload.elementsEqual(payload))
            }
        }
    }

    // Responses

    @Test func messagesAsPythonWritesThem() throws {
        try GoldenResponse.messages.withUnsafeBytes { (bytes) throws -> Void in
            var response = try ReceivedMessages(bytes)
            #expect(response.outstandingCredit == SubscribeTail.unbounded)
            #expect(response.epoch == .max)
            #expect(response.dropped == 3)
            let first = try #require(try response.next())
            #expect(first.sequence == 7)
            #expect(text(first.payload) == "4.1 C")
            #expect(first.timestamp == -1)
            #expect(first.isCarrying)
            let second = try #require(try response.next())
            #expect(second.sequence == 9)
            #expect(second.payload.isEmpty && !second.isCarrying)
            #expect(try response.next() == nil)
        }
        try GoldenResponse.first.withUnsafeBytes { (bytes) throws -> Void in
            var response = try ReceivedMessages(bytes)
            #expect(response.outstandingCredit == 5 && response.epoch == 9 && response.dropped == 0)
            #expect(try response.next() == nil)
        }
    }

    /// Content type and headers are decoded to the metadata that the topic's log has for them.
    @Test func whatMessagesCarryIsCompositeMetadata() throws {
        try Golden.publishMessage.withUnsafeBytes { (bytes) throws -> Void in
            var published = PublishedMessage()
            _ = try PublishAction.parse(bytes, message: &published)
            let logged = written { MessageHeaders.appendMetadata(of: published, into: &$0) }
            let entry = logged.withUnsafeBytes { metadata in
                MessageEntry(sequence: 1, timestamp: 2, payloadCount: 0, metadata: metadata)
            }
            var memory = [UInt8](repeating: 0, count: entry.size)
            logged.withUnsafeBytes { metadata in
                let entry = MessageEntry(sequence: 1, timestamp: 2, payloadCount: 0, metadata: metadata)
                memory.withUnsafeMutableBytes { entry.write(.nothing, to: $0.baseAddress!) }
            }
            try memory.withUnsafeBytes { (response) throws -> Void in
                var received = try ReceivedMessages(response)
                let message = try #require(try received.next())
                #expect(message.isCarrying)
                var scratch = PublishedMessage()
                var out = ByteBuffer()
                try message.appendMetadata(&scratch, limit: 1 << 16, into: &out)
                #expect(Array(out.readable) == logged)
                out.removeAll()
                #expect(throws: GRPCError.self) { try message.appendMetadata(&scratch, limit: 5, into: &out) }
            }
        }
    }

    @Test func answersAsPythonWritesThem() throws {
        let progress = try inMemory(GoldenResponse.progress) { (bytes) throws(GRPCError) in try PublishResponse(bytes) }
        #expect(progress == PublishResponse(grantedCredit: 300, acknowledgedSequence: 1 << 63, acceptedCount: 4))
        let one = try inMemory(GoldenResponse.one) { (bytes) throws(GRPCError) in try PublishOneResponse(bytes) }
        #expect(one == PublishOneResponse(sequence: 42, epoch: 9))
        #expect(try json(GoldenResponse.topic) == "{\"a\":1}")
        // JSON is UTF-8.
        #expect(throws: GRPCError.self) { try json(hex("0a01ff")) }
    }

    private func json(_ bytes: [UInt8]) throws(GRPCError) -> String {
        try inMemory(bytes) { (bytes) throws(GRPCError) in text(try AdminAnswer.json(bytes)) }
    }

    @Test func theBrokersOwnAnswersAreRead() throws {
        let progress = PublishResponse(grantedCredit: 1, acknowledgedSequence: 2, acceptedCount: 3)
        let bytes = try message { progress.append(to: &$0) }
        #expect(try inMemory(bytes) { (bytes) throws(GRPCError) in try PublishResponse(bytes) } == progress)
        let row = SubscriptionRow(json: "{}", id: 1, topic: "t", connection: "c")
        #expect(try json(try message { row.append(to: &$0) }) == "{}")
    }

    /// A peer can cut and change bytes at will: the result is an error or other values, never a trap.
    @Test func noiseIsReadOrRefused() {
        var generator = Repeatable(seed: 5)
        func read(_ bytes: UnsafeRawBufferPointer) {
            if var response = try? ReceivedMessages(bytes) {
                var scratch = PublishedMessage()
                var out = ByteBuffer()
                while let message = try? response.next() {
                    try? message.appendMetadata(&scratch, limit: 1 << 16, into: &out)
                }
            }
            _ = try? PublishResponse(bytes)
            _ = try? PublishOneResponse(bytes)
            _ = try? AdminAnswer.json(bytes)
        }
        for golden in GoldenResponse.all {
            forEachPrefix(golden, read)
            for _ in 0..<500 { generator.mutate(golden).withUnsafeBytes(read) }
        }
        // The parser rejects a response that is truncated within a number.
        let cut = GoldenResponse.messages.dropLast()
        #expect(throws: GRPCError.self) { try Array(cut).withUnsafeBytes { _ = try ReceivedMessages($0) } }
    }

    // Heads and trailers

    private func outcome(_ fields: HTTPFields) -> CallOutcome? {
        fields.bytes.withUnsafeBytes { bytes in
            var start = 0
            let ranges = fields.ends.map { end in
                defer { start = end.value }
                return FieldRange(start: start, nameEnd: end.name, valueEnd: end.value)
            }
            return ranges.withUnsafeBufferPointer { CallOutcome(HTTPFieldsView(base: bytes, ranges: $0)) }
        }
    }

    @Test func outcomes() {
        let overflow = outcome([
            "grpc-status": "8", "grpc-message": "overflow: 100%25 full %C3%B8", "forebay-end": "overflow",
            "forebay-dropped": "7",
        ])
        #expect(overflow?.status == .resourceExhausted)
        #expect(overflow?.message == "overflow: 100% full ø")
        #expect(overflow?.end == .overflow && overflow?.dropped == 7)
        #expect(outcome(["grpc-status": "0"])?.status == .ok)
        #expect(outcome(["grpc-status": "17"])?.status == .unknown)
        #expect(outcome(["grpc-status": "-1"])?.status == .unknown)
        #expect(outcome(["grpc-message": "no status"]) == nil)
    }

    @Test(arguments: GRPCMethod.allCases) func theBrokerReadsTheClientsHead(method: GRPCMethod) throws {
        let fields = GRPCHeads.request(method, authority: "a:1")
        var start = 0
        var list: [(name: String, value: String)] = []
        for end in fields.ends {
            let name = String(decoding: fields.bytes[start..<end.name], as: UTF8.self)
            list.append((name, String(decoding: fields.bytes[end.name..<end.value], as: UTF8.self)))
            start = end.value
        }
        #expect(list.prefix(4).map(\.name) == [":method", ":scheme", ":authority", ":path"])
        #expect(GRPCCall.isMeant(list))
        let call = try GRPCCall.parse(method: list[0].value, path: list[3].value, headers: Array(list.dropFirst(4)))
        #expect(call == GRPCCall(method: method, timeout: nil))
    }
}
