// What a publisher has sent and must send again, compared with a naive model.

import Client
import Testing

@Suite struct SentMessagesTests {
    private func take(_ messages: inout SentMessages, _ text: String) {
        Array(text.utf8).withUnsafeBytes { messages.take($0) }
    }

    @Test(arguments: [false, true]) func whatIsNotAcknowledgedIsSentAgain(keeps: Bool) {
        var messages = SentMessages(keepsPayloads: keeps)
        for text in ["a", "bb", "ccc"] { take(&messages, text) }
        #expect(messages.next == 1 && messages.payload == (keeps ? Array("a".utf8) : []))
        for _ in 0..<3 { messages.sent() }
        #expect(messages.next == nil)
        messages.accept(1)
        #expect(messages.acknowledged == 1 && messages.unacknowledged == 2 && messages.bytes == (keeps ? 5 : 0))
        #expect(messages.lost() == 2)
        #expect(messages.next == 2 && messages.payload == (keeps ? Array("bb".utf8) : []))
        messages.sent()
        // On the new connection this message is the first.
        messages.accept(1)
        #expect(messages.acknowledged == 2 && messages.next == 3)
        messages.sent()
        messages.acceptAll()
        #expect(messages.acknowledged == 3 && messages.bytes == 0 && messages.lost() == 0 && messages.next == nil)
    }

    /// If a broker acknowledges more than was sent, the excess is ignored.
    @Test func moreThanWasSentIsNotAccepted() {
        var messages = SentMessages(keepsPayloads: true)
        take(&messages, "a")
        messages.accept(5)
        #expect(messages.acknowledged == 0)
        messages.sent()
        messages.accept(5)
        #expect(messages.acknowledged == 1)
    }

    @Test func whatWasNotSentBeforeIsNotCountedAsRepeated() {
        var messages = SentMessages(keepsPayloads: true)
        for text in ["a", "b"] { take(&messages, text) }
        messages.sent()
        #expect(messages.lost() == 1 && messages.lost() == 0 && messages.next == 1)
    }

    @Test func longRunsEqualTheModel() {
        var random = SystemRandomNumberGenerator()
        var messages = SentMessages(keepsPayloads: true)
        var waiting: [Int] = []
        var onTheirWay: [Int] = []
        var taken = 0
        var acceptedHere: UInt64 = 0
        for _ in 0..<20_000 {
            switch UInt8.random(in: 0..<8, using: &random) {
            case 0...2:
                taken += 1
                take(&messages, "\(taken)")
                waiting.append(taken)
            case 3...5:
                guard let first = waiting.first else { continue }
                #expect(messages.next == UInt64(first) && messages.payload == Array("\(first)".utf8))
                messages.sent()
                onTheirWay.append(waiting.removeFirst())
            case 6:
                guard !onTheirWay.isEmpty else { continue }
                let count = Int.random(in: 1...onTheirWay.count, using: &random)
                acceptedHere += UInt64(count)
                messages.accept(acceptedHere)
                onTheirWay.removeFirst(count)
            default:
                #expect(messages.lost() == UInt64(onTheirWay.count))
                waiting = onTheirWay + waiting
                onTheirWay = []
                acceptedHere = 0
            }
            #expect(messages.unacknowledged == UInt64(waiting.count + onTheirWay.count))
            #expect(messages.bytes == (waiting + onTheirWay).reduce(0) { $0 + "\($1)".utf8.count })
        }
    }
}
