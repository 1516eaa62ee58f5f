// Event ids and the names of subscriptions.

import ForebayWire
import Testing

@testable import HTTP2

struct EventIDTests {
    @Test(arguments: [
        EventID(epoch: 1, sequence: 0), EventID(epoch: 6_616_333_571_386_961_933, sequence: 42),
        EventID(epoch: .max, sequence: .max - 1), EventID(epoch: 7, sequence: 9, isEnd: true),
    ])
    func idsComeBack(id: EventID) throws {
        #expect(try EventID(id.text) == id)
    }

    @Test(arguments: [
        "", "-", "1", "1-", "-1", "0-1", "1-2-", "1-2-End", "1-2-end-", "+1-2", "1-+2", " 1-2", "1-2 ", "1--2",
        "1-18446744073709551615", "18446744073709551616-1", "1-99999999999999999999999999", "a-b", "1-0x2", "١-٢",
    ])
    func otherTextsAreRefused(text: String) {
        #expect(throws: Problem.self) { try EventID(text) }
    }

    @Test func subscriptionIDsComeBack() throws {
        let id = SubscriptionID(high: 0x0123_4567_89ab_cdef, low: 0xfedc_ba98_7654_3210)
        #expect(id.text == "0123456789abcdeffedcba9876543210")
        #expect(SubscriptionID(id.text) == id)
        #expect(SubscriptionID(id.text.uppercased()) == id)
        #expect(SubscriptionID(high: 0, low: 1).text == "00000000000000000000000000000001")
    }

    @Test(arguments: [
        "", "0123456789abcdeffedcba987654321", "0123456789abcdeffedcba98765432100",
        "0123456789abcdeffedcba987654321g", "0x23456789abcdeffedcba9876543210", "é123456789abcdeffedcba987654321",
    ])
    func otherNamesAreNone(text: String) {
        #expect(SubscriptionID(text) == nil)
    }
}
