// Which topics a pattern matches, and what is not a pattern.

import ForebayWire
import RSocket
import Testing

@testable import Core

@Suite struct TopicPatternTests {
    @Test(arguments: [
        ("orders", ["orders"], ["order", "orders.eu", "Orders", "orderss"]),
        ("orders.eu", ["orders.eu"], ["orders", "orders.eu.fr", "orders.e", "ordersxeu"]),
        ("orders.*", ["orders.eu", "orders.-"], ["orders", "orders.eu.fr", "order.eu"]),
        ("*.eu", ["orders.eu", "o.eu"], ["eu", "orders.us", "a.orders.eu", "$SYS.eu"]),
        ("a.*.c", ["a.b.c", "a.bb.c"], ["a.c", "a.b.b.c", "a.b.cc", "a.b"]),
        ("*", ["orders"], ["orders.eu", "$SYS"]),
        ("*.*", ["a.b"], ["a", "a.b.c", "$SYS.events"]),
        ("orders.>", ["orders.eu", "orders.eu.fr"], ["orders", "ordersx.eu"]),
        ("*.b.>", ["a.b.c", "a.b.c.d"], ["a.b", "a.c.b"]),
        (">", ["a", "a.b.c"], ["$SYS.events"]),
        ("$SYS.>", ["$SYS.events", "$SYS.topic.info"], ["SYS.events", "a.b"]),
        ("$SYS.topic.*", ["$SYS.topic.info"], ["$SYS.topics", "$SYS.topic.info.x"]),
    ])
    func matches(_ pattern: String, _ matching: [String], _ others: [String]) throws {
        let pattern = try TopicPattern(parsing: pattern)
        for name in matching { #expect(pattern.matches(name), "\(pattern) \(name)") }
        for name in others { #expect(!pattern.matches(name), "\(pattern) \(name)") }
    }

    @Test(arguments: [
        ("", "empty; write"),
        (".", "empty token"), ("a.", "empty token"), (".a", "empty token"), ("a..b", "empty token"),
        (">.a", "not the last token"), ("a.>.b", "not the last token"),
        ("a*", "whole tokens"), ("a.b>", "whole tokens"), ("**", "whole tokens"), ("a.*>", "whole tokens"),
        ("a b", "is not allowed"), ("ä", "is not allowed"), ("$SYS", "is not allowed"), ("a.$SYS", "is not allowed"),
        ("$sys.a", "is not allowed"), ("a\u{0}", "is not allowed"),
        (String(repeating: "a", count: 256), "256 bytes"),
    ])
    func refuses(_ text: String, _ fault: String) throws {
        let error = try #require(throws: TopicPatternError.self) { try TopicPattern(parsing: text) }
        #expect(error.description.contains(fault))
        #expect(error.description.contains("for example"))
        #expect(error.description.utf8.count < 500)
    }

    @Test func everyTopicMatchesItsOwnName() throws {
        for name in ["a", "a.b", "A-1._", String(repeating: "a.", count: 127) + "a"] {
            #expect(TopicName.fault(name) == nil)
            #expect(try TopicPattern(parsing: name).matches(name))
            #expect(try TopicPattern(parsing: name).description == name)
        }
    }
}
