// Requests: as Python writes them, with proto3's rules for repeated fields, truncated anywhere, and damaged.

import Bytes
import ForebayWire
import RSocket
import Testing

@testable import HTTP2

private func subscribe(_ bytes: [UInt8]) throws(GRPCError) -> SubscribeAction {
    try inMemory(bytes) { (bytes) throws(GRPCError) in try SubscribeAction.parse(bytes) }
}

/// A `PublishRequest` as text, including its message.
private func publish(_ bytes: [UInt8]) throws(GRPCError) -> String {
    try inMemory(bytes) { (bytes) throws(GRPCError) in
        var message = PublishedMessage()
        let request = try PublishAction.parse(bytes, message: &message)
        return request == .message ? describe(message) : "\(request)"
    }
}

private func describe(_ message: PublishedMessage) -> String {
    ([message.payload.text, message.contentType.text] + message.headers.map { "\($0.name.text)=\($0.value.text)" })
        .joined(separator: "|")
}

/// An `Open` or `PublishOpen` around fields.
private func inside(_ number: UInt8, _ fields: String) -> [UInt8] {
    let bytes = hex(fields)
    return written { out in bytes.withUnsafeBytes { out.append(field: number, $0) } }
}

@Suite struct SubscribeRequestTests {
    @Test func whatPythonWritesIsRead() throws {
        var open = SubscribeOpen()
        open.topic = "weather.oslo"
        open.requestN = 300
        open.start = .from(1200, epoch: 6_616_333_571_386_961_933)
        open.buffer = 8
        open.overflow = .block
        open.gapFails = true
        #expect(try subscribe(Golden.openFrom) == .open(open))

        open = SubscribeOpen()
        open.topic = "t"
        open.requestN = 2_147_483_647
        open.start = .last(.max)
        #expect(try subscribe(Golden.openLast) == .open(open))

        open = SubscribeOpen()
        open.topic = "t"
        open.requestN = 1
        open.start = .all
        open.overflow = .latest
        #expect(try subscribe(Golden.openAll) == .open(open))

        #expect(try subscribe(Golden.request) == .request(300))
    }

    @Test(arguments: [
        ("0a04 1001 5801", StartTime.at(1)), ("0a0c 1001 58ffffffffffffffff7f", .at(.max)), ("0a04 1001 6005", .ago(5)),
        ("0a0d 1001 60ffffffffffffffffff01", .ago(.max)),
    ])
    func timesToBeginAt(_ bytes: String, _ time: StartTime) throws {
        var open = SubscribeOpen(topic: "", requestN: 1)
        open.start = .since(time)
        #expect(try subscribe(hex(bytes)) == .open(open))
        #expect(try subscribe(message { open.append(to: &$0) }) == .open(open))
    }

    /// 0 would mean that the field is not set.
    @Test func theClientWritesNoTimeThatIsNotSet() throws {
        for time in [StartTime.at(0), .ago(0)] {
            var open = SubscribeOpen(topic: "t", requestN: 1)
            open.start = .since(time)
            guard case .open(let read) = try subscribe(message { open.append(to: &$0) }), case .since = read.start
            else {
                Issue.record("it begins with the next message")
                continue
            }
        }
    }

    @Test(arguments: [
        // No action, or an action that is not known yet.
        ("", "neither open nor request_n"), ("1a00", "neither open nor request_n"),
        // A field with the wrong wire type is unknown.
        ("0a", "ends within a field"), ("0801", "neither open"), ("1200", "neither open"),
        ("1000", "request_n is 0"), ("108080808010", "request_n is 0"),
        ("0a00", "request_n is 0"), ("0a030a0174", "request_n is 0"),
        // Contradictions: replay_last and replay_all, replay_all and from_sequence, replay_last and from_sequence.
        ("0a06100118012001", "exclude each"), ("0a06100120012801", "exclude each"),
        ("0a06100118012801", "exclude each"),
        // replay_last and since_ns, from_sequence and since_ago_ns, since_ns and since_ago_ns; since_ns before 1970.
        ("0a06100118015801", "exclude each"), ("0a06100128016001", "exclude each"),
        ("0a06100158016001", "exclude each"), ("0a0d100158ffffffffffffffffff01", "before 1970"),
        // Epoch only; buffer too large; overflow unknown, negative.
        ("0a0410013001", "requires from_sequence"), ("0a0810013880808080 08", "Open.buffer"),
        ("0a0410014006", "Open.overflow is 6"), ("0a0d100140ffffffffffffffffff01", "Open.overflow is -1"),
        ("0a0510010a01ff", "valid UTF-8"), ("0a021001 10", "ends within"), ("0a0310010a", "Open ends within"),
        ("0b0d", "ends within"),
    ])
    func whatIsNotAllowedIsToldAsInvalid(text: String, part: String) {
        let error = refusal { () throws(GRPCError) in _ = try subscribe(hex(text)) }
        #expect(error?.status == .invalidArgument)
        #expect(error?.message.contains(part) == true, "\(error?.message ?? "taken")")
    }

    @Test func theLastActionCountsAndOpensMerge() throws {
        #expect(try subscribe(Golden.request + Golden.openAll) == subscribe(Golden.openAll))
        #expect(try subscribe(Golden.openAll + Golden.request) == .request(300))
        #expect(try subscribe(hex("1001 1005")) == .request(5))
        // Two opens are merged: the demand comes from one, the buffer from the other; a repeated topic replaces the
        // former.
        let merged = inside(1, "0a0161 1001") + inside(1, "0a0162 3807")
        guard case .open(let open) = try subscribe(merged) else {
            Issue.record("not an open")
            return
        }
        #expect(open.topic == "b" && open.requestN == 1 && open.buffer == 7)
        // Another action between two opens ends the merging.
        let error = refusal { () throws(GRPCError) in
            _ = try subscribe(inside(1, "0a0161 1001") + Golden.request + inside(1, "3807"))
        }
        #expect(error?.message.contains("request_n is 0") == true)
    }

    @Test func numbersAreCutToTheirWidthAsProtobufHasIt() throws {
        // 2³² + 5 as a uint32, 2³² + 1 as an enum, 2 as a bool.
        #expect(try subscribe(hex("10 8580808010")) == .request(5))
        guard case .open(let open) = try subscribe(inside(1, "1001 40 8180808010 4802")) else { return }
        #expect(open.overflow == .dropNewest && open.gapFails)
    }

    @Test func unknownFieldsAreSteppedOver() throws {
        let unknown = hex("7801 7d01020304 79 0102030405060708 7a0161 7b 7c")
        #expect(try subscribe(unknown + Golden.request + unknown) == .request(300))
        #expect(try subscribe(inside(1, "1001 7801 7b7c")) == subscribe(inside(1, "1001")))
    }
}

@Suite struct PublishRequestTests {
    @Test func whatPythonWritesIsRead() throws {
        #expect(try publish(Golden.publishOpen) == "\(PublishAction.open(topic: "a.b", completesTopic: true))")
        #expect(try publish(Golden.publishMessage) == "4.1 C|text/plain|empty=|trace=søk")
        #expect(try publish(Golden.publishEmpty) == "|")
        #expect(try publish(Golden.publishFail) == "\(PublishAction.failTopic("no sensor"))")
        try Golden.publishOne.withUnsafeBytes { bytes in
            var message = PublishedMessage()
            let topic = try PublishOneRequest.parse(bytes, message: &message)
            #expect(topic == "a.b")
            #expect(Array(message.payload) == (0..<130).map { UInt8($0) })
            // The payload is read in place, not copied.
            #expect(message.payload.baseAddress == bytes.baseAddress! + 13)
        }
    }

    @Test func theLastActionCountsAndMessagesMerge() throws {
        #expect(try publish(Golden.publishOpen + Golden.publishFail) == publish(Golden.publishFail))
        #expect(try publish(Golden.publishFail + Golden.publishMessage) == publish(Golden.publishMessage))
        #expect(try publish(inside(2, "120161 2a00") + inside(2, "220162 2a00")) == "a|b|=|=")
        #expect(try publish(inside(2, "120161") + inside(2, "120163")) == "c|")
        #expect(try publish(inside(2, "120161 220162") + Golden.publishOpen + inside(2, "120163")) == "c|")
        #expect(
            try publish(inside(1, "0a0161") + inside(1, "1001"))
                == "\(PublishAction.open(topic: "a", completesTopic: true))")
        // Values from one call must not remain for the next.
        try Golden.publishMessage.withUnsafeBytes { first in
            var message = PublishedMessage()
            _ = try PublishAction.parse(first, message: &message)
            try Golden.publishEmpty.withUnsafeBytes { _ = try PublishAction.parse($0, message: &message) }
            #expect(describe(message) == "|")
        }
    }

    @Test(arguments: [
        ("", "none of open"), ("2001", "none of open"), ("1a01ff", "valid UTF-8"), ("0a030a01ff", "valid UTF-8"),
        ("12032201ff", "content_type is not valid UTF-8"), ("12052a030a01ff", "name in Message.headers"),
        ("12052a031201ff", "value in Message.headers"), ("12021205", "Message ends within"),
        ("12042a020a05", "Message.headers ends within"), ("12", "ends within"),
    ])
    func whatIsNotAllowedIsToldAsInvalid(text: String, part: String) {
        let error = refusal { () throws(GRPCError) in _ = try publish(hex(text)) }
        #expect(error?.status == .invalidArgument)
        #expect(error?.message.contains(part) == true, "\(error?.message ?? "taken")")
    }

    @Test func thePayloadNeedNotBeText() throws {
        #expect(try publish(hex("12031201ff")) == "\u{fffd}|")
    }

    @Test func headersAreLimited() throws {
        let most = String(repeating: "2a00", count: CarriedMetadata.mostHeaders)
        #expect(try publish(inside(2, most)).split(separator: "|").count == CarriedMetadata.mostHeaders)
        let error = refusal { () throws(GRPCError) in _ = try publish(inside(2, most + "2a00")) }
        #expect(error?.status == .resourceExhausted)
        // Nor may merged messages have more headers.
        #expect(
            refusal { () throws(GRPCError) in _ = try publish(inside(2, most) + inside(2, "2a00")) }?.status
                == .resourceExhausted)
    }
}

@Suite struct AdminRequestTests {
    private func parse(_ bytes: [UInt8], _ method: GRPCMethod) throws(GRPCError) -> AdminRequest {
        try inMemory(bytes) { (bytes) throws(GRPCError) in try AdminRequest.parse(bytes, of: method) }
    }

    @Test func eachMethodReadsItsOwn() throws {
        let both = Golden.failTopic
        #expect(try parse(both, .info) == .call(.info))
        #expect(try parse(both, .topicInfo) == .call(.topicInfo("a.b")))
        #expect(try parse(both, .completeTopic) == .call(.completeTopic("a.b")))
        #expect(try parse(both, .failTopic) == .call(.failTopic("a.b", message: "no sensor")))
        #expect(try parse(both, .deleteTopic) == .call(.deleteTopic("a.b")))
        #expect(try parse([], .deleteTopic) == .call(.deleteTopic("")))
        #expect(try parse([], .listTopics) == .list(.topics))
        #expect(try parse([], .listSubscriptions) == .list(.subscriptions))
        #expect(try parse([], .listConnections) == .list(.connections))
    }

    @Test func whatCannotBeReadIsInvalid() {
        #expect(
            refusal { () throws(GRPCError) in _ = try parse(hex("0a01ff"), .topicInfo) }?.status == .invalidArgument)
        #expect(refusal { () throws(GRPCError) in _ = try parse(hex("0a"), .info) }?.status == .invalidArgument)
        #expect(refusal { () throws(GRPCError) in _ = try parse([], .subscribe) }?.status == .unimplemented)
    }
}

@Suite struct RequestFuzzTests {
    /// Runs every parser on `bytes`; returns how many accepted them.
    private func takers(_ bytes: UnsafeRawBufferPointer) -> Int {
        var message = PublishedMessage()
        var out = ByteBuffer()
        let refusals = [
            refusal { () throws(GRPCError) in _ = try SubscribeAction.parse(bytes) },
            refusal { () throws(GRPCError) in
                if try PublishAction.parse(bytes, message: &message) == .message {
                    let count = try MessageHeaders.metadataCount(of: message, limit: 1000)
                    MessageHeaders.appendMetadata(of: message, into: &out)
                    #expect(out.count == count)
                }
            },
            refusal { () throws(GRPCError) in _ = try PublishOneRequest.parse(bytes, message: &message) },
            refusal { () throws(GRPCError) in _ = try AdminRequest.parse(bytes, of: .failTopic) },
            refusal { () throws(GRPCError) in _ = try Health.parse(bytes) },
            refusal { () throws(GRPCError) in
                var answer = ByteBuffer()
                try Reflection.answer(bytes, to: &answer)
            },
        ]
        for case .some(let error) in refusals {
            #expect([.invalidArgument, .resourceExhausted].contains(error.status), "\(error)")
        }
        return refusals.count { $0 == nil }
    }

    @Test func everyBeginningIsTakenOrRefused() {
        var taken = 0
        for bytes in Golden.all { forEachPrefix(bytes) { taken += takers($0) } }
        #expect(taken > 0)
    }

    @Test func damagedRequestsAreTakenOrRefused() {
        var random = Repeatable(seed: 2)
        var taken = 0
        let rounds = 10_000
        for _ in 0..<rounds {
            let bytes = random.mutate(Golden.all.randomElement(using: &random)!)
            taken += bytes.withUnsafeBytes { takers($0) }
        }
        #expect(taken > rounds / 2 && taken < rounds * 5, "\(taken)")
    }
}
