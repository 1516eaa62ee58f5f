// Event streams: the bytes written, and that an EventSource reads from them what was published.

import ForebayWire
import Foundation
import Testing

@testable import HTTP2

struct EventStreamTests {
    @Test(arguments: [
        ("4.1 C", "id: 66-42\ndata: 4.1 C\n\n"),
        ("", "id: 66-42\ndata: \n\n"),
        (" ", "id: 66-42\ndata:  \n\n"),
        ("\n", "id: 66-42\ndata: \ndata: \n\n"),
        ("a\nb", "id: 66-42\ndata: a\ndata: b\n\n"),
        ("a\n\nb\n", "id: 66-42\ndata: a\ndata: \ndata: b\ndata: \n\n"),
        ("a\r\nb", "id: 66-42\nevent: base64\ndata: YQ0KYg==\n\n"),
        ("a\rb", "id: 66-42\nevent: base64\ndata: YQ1i\n\n"),
        ("12345678\r", "id: 66-42\nevent: base64\ndata: MTIzNDU2NzgN\n\n"),
        ("\u{feff}x", "id: 66-42\ndata: \u{feff}x\n\n"),
        ("\u{0}\u{1}\u{7f}", "id: 66-42\ndata: \u{0}\u{1}\u{7f}\n\n"),
        ("\u{2028}\u{85}😀", "id: 66-42\ndata: \u{2028}\u{85}😀\n\n"),
        (": x\ndata: y", "id: 66-42\ndata: : x\ndata: data: y\n\n"),
    ])
    func messagesAreWritten(payload: String, expected: String) throws {
        let bytes = try #require(Sample(payload).record(.eventStream))
        #expect(bytes == Array(expected.utf8))
    }

    @Test func whatIsNotUTF8IsWrittenInBase64() throws {
        let bytes = try #require(Sample([0xFF, 0x00, 0x80]).record(.eventStream))
        #expect(text(bytes) == "id: 66-42\nevent: base64\ndata: /wCA\n\n")
    }

    @Test func lossesAreToldBeforeTheMessage() throws {
        var sample = Sample("x")
        sample.dropped = 3
        #expect(
            text(try #require(sample.record(.eventStream)))
                == "event: gap\ndata: {\"dropped\":3}\n\nid: 66-42\ndata: x\n\n")
        sample.dropped = 0
        sample.restarts = true
        #expect(
            text(try #require(sample.record(.eventStream)))
                == "event: gap\ndata: {\"dropped\":0,\"restarted\":true}\n\nid: 66-42\ndata: x\n\n")
    }

    @Test func largestNumbersAreWritten() throws {
        var sample = Sample("")
        sample.epoch = .max
        sample.sequence = .max
        sample.dropped = .max
        #expect(
            text(try #require(sample.record(.eventStream)))
                == "event: gap\ndata: {\"dropped\":18446744073709551615}\n\n"
                + "id: 18446744073709551615-18446744073709551615\ndata: \n\n")
    }

    /// An EventSource returns every payload unchanged, and nothing that a publisher writes becomes another event, an
    /// id, or an end.
    @Test(arguments: 0..<8)
    func anEventSourceGivesPayloadsBack(round: Int) throws {
        var random = PlainRandom(UInt64(round))
        var stream = written { StreamFormat.eventStream.appendOpening(SubscriptionID(high: 1, low: 2), into: &$0) }
        var expected: [(payload: [UInt8], id: String)] = []
        var gaps = 0
        for sequence in 1...400 {
            var sample = Sample(nastyPayload(&random))
            sample.sequence = UInt64(sequence)
            sample.dropped = random.next() % 16 == 0 ? random.next() >> 40 : 0
            gaps += sample.dropped > 0 ? 1 : 0
            stream += try #require(sample.record(.eventStream))
            if random.next() % 32 == 0 { stream += written { StreamFormat.eventStream.appendHeartbeat(into: &$0) } }
            expected.append((sample.payload, "66-\(sequence)"))
        }
        let source = EventSource(stream)
        #expect(source.events.first?.type == "subscribed")
        #expect(source.events.filter { $0.type == "gap" }.count == gaps)
        let messages = source.events.dropFirst().filter { $0.type != "gap" }
        try #require(messages.count == expected.count)
        var kinds: Set<String> = []
        for (message, expected) in zip(messages, expected) {
            kinds.insert(message.type)
            let payload: [UInt8]
            switch message.type {
            case "message": payload = Array(message.data.utf8)
            case "base64": payload = Array(try #require(Data(base64Encoded: message.data)))
            default: payload = try #require(nil, "an event \(message.type)")
            }
            #expect(payload == expected.payload)
            #expect(message.lastEventID == expected.id)
        }
        #expect(kinds == ["message", "base64"])
    }

    @Test func noticesAreEvents() throws {
        let last = EventID(epoch: 66, sequence: 42)
        let id = SubscriptionID(high: 0, low: 10)
        let stream = written {
            StreamFormat.eventStream.appendOpening(id, retry: 250, into: &$0)
            let hasHeartbeat = StreamFormat.eventStream.appendHeartbeat(into: &$0)
            #expect(hasHeartbeat)
            StreamFormat.eventStream.appendDraining(into: &$0)
            StreamFormat.eventStream.appendFailed(
                after: last, message: "topic failed: \"no\nmore\"", StreamLoss(), into: &$0)
            StreamFormat.eventStream.appendComplete(after: last, StreamLoss(dropped: 7, restarts: true), into: &$0)
            StreamFormat.eventStream.append(
                EndNotice(topic: "t.eu", epoch: 66, failure: "topic failed: no\nmore", dropped: 7, restarts: true),
                into: &$0)
        }
        #expect(
            text(stream) == """
                retry: 250
                event: subscribed
                data: {"subscription":"0000000000000000000000000000000a"}

                : heartbeat

                : the broker is shutting down

                id: 66-42-end
                event: failed
                data: {"message":"topic failed: \\"no\\nmore\\"","dropped":0}

                id: 66-42-end
                event: complete
                data: {"dropped":7,"restarted":true}

                event: topic-end
                data: {"topic":"t.eu","epoch":"66","dropped":7,"restarted":true,"failure":"topic failed: no\\nmore"}


                """)
        let source = EventSource(stream)
        #expect(source.retry == 250)
        #expect(source.events.map(\.type) == ["subscribed", "failed", "complete", "topic-end"])
        #expect(source.comments == [" heartbeat", " the broker is shutting down"])
        #expect(try json(Array(source.events[1].data.utf8))["message"] as? String == "topic failed: \"no\nmore\"")
        // The request that an EventSource sends when it reconnects after that.
        let again = request("GET", "/v1/topics/t/messages?replay=5", [("last-event-id", source.lastEventID)])
        #expect(try PlainProtocol().call(again) == .ended)
    }
}
