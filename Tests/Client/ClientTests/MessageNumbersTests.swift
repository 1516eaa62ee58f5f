// What a publisher does with its last number, as the broker reports it after each connection.

import Client
import ForebayWire
import Testing

@Suite struct MessageNumbersTests {
    private func answer(
        _ numbers: inout MessageNumbers, _ last: UInt64, acknowledged: UInt64, doubtful: UInt64 = 0
    ) throws -> UInt64 {
        let json = #"{"topic":"t","epoch":"7","publisher":"a,\"number\":99,","number":\#(last),"sequence":12}"#
        return try Array(json.utf8).withUnsafeBytes {
            try numbers.answer($0, acknowledged: acknowledged, doubtful: doubtful)
        }
    }

    private func place(_ numbers: MessageNumbers, _ place: UInt64) -> UInt64 { numbers.number(at: place).number }

    @Test func itContinuesWhereItWas() throws {
        var numbers = MessageNumbers(publisher: "p", topic: "t")
        #expect(!numbers.isKnown)
        #expect(try answer(&numbers, 5, acknowledged: 0) == 0)
        #expect(numbers.isKnown && numbers.number(at: 1) == PublisherNumber(publisher: "p", number: 6))
        numbers.lost()
        #expect(!numbers.isKnown)
        // Three of four doubtful messages had arrived.
        #expect(try answer(&numbers, 10, acknowledged: 2, doubtful: 4) == 3)
        #expect(place(numbers, 6) == 11)
        numbers.lost()
        #expect(try answer(&numbers, 10, acknowledged: 5, doubtful: 1) == 0)
        #expect(place(numbers, 6) == 11)
    }

    @Test func itBeginsAgainIfNothingIsInDoubt() throws {
        var numbers = MessageNumbers(publisher: "p", topic: "t")
        _ = try answer(&numbers, 3, acknowledged: 0)
        numbers.lost()
        #expect(try answer(&numbers, 0, acknowledged: 4) == 0)
        #expect(place(numbers, 5) == 1)
        numbers.lost()
        #expect(try answer(&numbers, 2, acknowledged: 5, doubtful: 1) == 1)
        #expect(place(numbers, 7) == 3)
    }

    @Test func itStopsInDoubt() throws {
        for (last, acknowledged, doubtful, text) in [
            (0, 0, 1, "whether the last 1 message was published"),
            (0, 4, 2, "whether the last 2 messages were published"),
            (6, 4, 2, "no longer knows publisher 'p'"), (10, 4, 2, "Another client publishes as 'p'"),
        ] as [(UInt64, UInt64, UInt64, String)] {
            var numbers = MessageNumbers(publisher: "p", topic: "t")
            _ = try answer(&numbers, 3, acknowledged: 0)
            numbers.lost()
            let error = #expect(throws: ClientError.self) {
                try answer(&numbers, last, acknowledged: acknowledged, doubtful: doubtful)
            }
            #expect(error?.message.contains(text) == true, "\(error?.message ?? "")")
            #expect(error?.code == .rejected && !numbers.isKnown)
        }
    }

    @Test func anAnswerWithoutANumberIsRefused() {
        for json in [
            "", "{}", #"{"number":1}"#, #"{"a":"b","number":"1"}"#, #"{"a":"b","number":99999999999999999999}"#,
        ] {
            var numbers = MessageNumbers(publisher: "p", topic: "t")
            #expect(throws: ClientError.self) {
                try Array(json.utf8).withUnsafeBytes { try numbers.answer($0, acknowledged: 0, doubtful: 0) }
            }
        }
    }

    @Test func whatWasSentStaysInDoubtUntilItIsAcknowledged() {
        var messages = SentMessages(keepsPayloads: true)
        for text in ["a", "b", "c"] { Array(text.utf8).withUnsafeBytes { messages.take($0) } }
        for _ in 0..<3 { messages.sent() }
        #expect(messages.doubtful == 3)
        _ = messages.lost()
        messages.confirm(1)
        #expect(messages.acknowledged == 1 && messages.doubtful == 2 && messages.payload == Array("b".utf8))
        messages.sent()
        // The second connection is lost before the last message has been sent again.
        _ = messages.lost()
        #expect(messages.doubtful == 2 && messages.next == 2)
        messages.confirm(2)
        #expect(messages.doubtful == 0 && messages.next == nil && messages.bytes == 0)
    }
}
