// What is printed: messages, tables, JSON, progress, the lines of the interactive view; and the lines that are read.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Client
@testable import forebay

private func formatted(
    _ kind: MessageFormat.Kind, _ data: [UInt8], terminal: Bool = false, info: MessageInfo? = nil,
    metadata: [UInt8]? = nil
) -> String {
    var out = ByteBuffer()
    data.withUnsafeBytes { data in
        let format = MessageFormat(kind: kind, isTerminal: terminal)
        if let metadata {
            metadata.withUnsafeBytes { format.append(data, info: info, metadata: $0, to: &out) }
        } else {
            format.append(data, info: info, metadata: nil, to: &out)
        }
    }
    return String(decoding: out.readable, as: UTF8.self)
}

@Suite struct MessageFormatTests {
    @Test func textGoesAsItIsIntoAPipe() {
        #expect(formatted(.text, Array("a\u{1b}[31m\r\nb".utf8)) == "a\u{1b}[31m\r\nb\n")
        #expect(formatted(.text, []) == "\n")
        #expect(formatted(.raw, Array("a\n".utf8)) == "a\n")
    }

    @Test(arguments: [
        ("plain – ünïcödé 漢字 🙂", "plain – ünïcödé 漢字 🙂"), ("tab\tline\nnext", "tab\tline\nnext"),
        ("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07"), ("cr\rlf", "cr\\rlf"), ("\u{9b}31m", "\\u{9b}31m"),
        ("\u{202e}evil", "\\u{202e}evil"), ("del\u{7f}", "del\\x7f"), ("nul\0", "nul\\x00"),
    ])
    func terminalsGetNothingToObey(text: String, shown: String) {
        #expect(formatted(.text, Array(text.utf8), terminal: true) == shown + "\n")
    }

    @Test(
        arguments: [
            ([0x61, 0xff, 0x62], "a\\xffb"), ([0xc3], "\\xc3"), ([0xc0, 0x80], "\\xc0\\x80"),
            ([0xed, 0xa0, 0x80], "\\xed\\xa0\\x80"), ([0xf4, 0x90, 0x80, 0x80], "\\xf4\\x90\\x80\\x80"),
            ([0xe2, 0x82, 0x41], "\\xe2\\x82A"),
        ] as [([UInt8], String)])
    func bytesThatAreNotUTF8(bytes: [UInt8], shown: String) {
        #expect(formatted(.text, bytes, terminal: true) == shown + "\n")
    }

    @Test func metaStandsBeforeTheText() {
        let info = MessageInfo(epoch: 5, sequence: 42, timestamp: 1_500_000_000, dropped: 0)
        let text = formatted(.text, Array("x".utf8), info: info)
        #expect(text.hasPrefix("#42 ") && text.hasSuffix(":01.500 x\n"))
    }

    @Test func theTopicStandsBeforeTheText() {
        func printed(_ kind: MessageFormat.Kind, _ topic: String, info: MessageInfo? = nil) -> String {
            var out = ByteBuffer()
            Array("x y".utf8).withUnsafeBytes {
                MessageFormat(kind: kind, isTerminal: false)
                    .append($0, info: info, topic: topic, metadata: nil, to: &out)
            }
            return String(decoding: out.readable, as: UTF8.self)
        }
        #expect(printed(.text, "orders.eu") == "orders.eu x y\n")
        #expect(printed(.text, "a\u{1b}\n") == "a\\x1b\\n x y\n")
        #expect(printed(.json, "orders.eu") == #"{"topic":"orders.eu","payload":"x y"}"# + "\n")
        #expect(printed(.raw, "orders.eu") == "x y")
        let info = MessageInfo(epoch: 5, sequence: 42, timestamp: 0, dropped: 1, topic: "orders.eu")
        #expect(printed(.text, "orders.eu", info: info).hasPrefix("orders.eu #42 "))
        #expect(
            printed(.json, "orders.eu", info: info)
                == #"{"topic":"orders.eu","sequence":42,"epoch":"5","timestamp_ns":0,"dropped":1,"payload":"x y"}"#
                + "\n")
    }

    @Test func whatIsMissingOfAPattern() {
        func sentence(_ arrival: TopicPosition.Arrival, _ topic: String?) -> String? {
            arrival.sentence(MessageInfo(epoch: 5, sequence: 42, timestamp: 0, dropped: 1, topic: topic))
        }
        #expect(sentence(.behind(3), "a.b") == "3 messages lost before #42 of a.b.")
        #expect(sentence(.behind(3), nil) == "3 messages lost before #42.")
        #expect(sentence(.uncertain, "a.b") == "Messages may have been lost before #42 of a.b.")
        #expect(sentence(.restarted(previous: 1), "a.b")?.hasPrefix("epoch 5 of a.b: the topic restarted") == true)
        #expect(sentence(.next, "a.b") == nil)
    }

    @Test func json() {
        #expect(
            formatted(.json, Array("say \"ä\"\\\n\u{1}\u{7f}\u{9b}\u{202e}".utf8))
                == #"{"payload":"say \"ä\"\\\n\u0001\u007f\u009b\u202e"}"#
                + "\n")
        #expect(formatted(.json, [0xff, 0xfe]) == #"{"payload_base64":"//4="}"# + "\n")
        #expect(formatted(.json, []) == #"{"payload":""}"# + "\n")
        let info = MessageInfo(epoch: .max, sequence: 42, timestamp: -1, dropped: 7)
        let head = #"{"sequence":42,"epoch":"18446744073709551615","timestamp_ns":-1,"dropped":7,"#
        #expect(formatted(.json, Array("x".utf8), info: info) == head + #""payload":"x"}"# + "\n")
        let entries = bytes { out in
            [UInt8](repeating: 0, count: 32).withUnsafeBytes {
                CompositeMetadata.appendEntry(name: "application/vnd.forebay.message", $0, into: &out)
            }
            [UInt8(1), 2].withUnsafeBytes { CompositeMetadata.appendEntry(id: 0x7d, $0, into: &out) }
            MessageProperties(contentType: "text/plain", headers: [("b", "2"), ("a", "1"), ("b", "3")])
                .appendMetadata(into: &out)
            [UInt8(0xff)].withUnsafeBytes { CompositeMetadata.appendEntry(name: "x/y", $0, into: &out) }
        }
        let others = #""message/x.rsocket.tracing-zipkin.v0":"\u0001\u0002","x/y-bin":"/w""#
        let list = #""content_type":"text/plain","headers":{"a":"1","b":"3","# + others + "},"
        #expect(
            formatted(.json, Array("x".utf8), info: info, metadata: entries) == head + list + #""payload":"x"}"# + "\n")
    }

    @Test func messageInfoIsRead() {
        var metadata = bytes { out in
            [UInt8(9)].withUnsafeBytes { CompositeMetadata.appendEntry(id: 0x7d, $0, into: &out) }
            // Two bytes more than this version knows: later versions may add fields.
            let body = hex("0000000000000007 0000000000000008 ffffffffffffffff 0000000000000009 abcd")
            body.withUnsafeBytes {
                CompositeMetadata.appendEntry(name: "application/vnd.forebay.message", $0, into: &out)
            }
        }
        let info = metadata.withUnsafeBytes { MessageInfo(metadata: $0) }
        #expect(info == MessageInfo(epoch: 7, sequence: 8, timestamp: -1, dropped: 9))
        metadata.removeLast(3)
        #expect(metadata.withUnsafeBytes { MessageInfo(metadata: $0) } == nil)
        #expect(MessageInfo(metadata: UnsafeRawBufferPointer(start: nil, count: 0)) == nil)
    }
}

@Suite struct JSONTests {
    @Test(arguments: [
        "", "{", "[1,]", "{\"a\"}", "01x", "nul", "\"a", "\"\u{1}\"", "1 2", "-", "1.", "1e", "\"\\x\"", "\"\\u12\"",
    ])
    func refuses(text: String) { #expect(JSON(text) == nil) }

    @Test func reads() {
        let value = JSON(" {\"a\": [1, -2.5e+3, true, null], \"b\": \"x\\u00e4\\n\\ud83d\\ude42\\ud800\", \"c\": {}} ")
        #expect(
            value
                == .object([
                    ("a", .array([.number("1"), .number("-2.5e+3"), .bool(true), .null])),
                    ("b", .string("xä\n🙂\u{fffd}")), ("c", .object([])),
                ]))
        #expect(JSON("18446744073709551615")?.unsigned == .max)
        #expect(value?["b"]?.text == "xä\n🙂\u{fffd}")
        #expect(value?["nothing"] == nil)
    }

    @Test func nestingIsBounded() {
        #expect(JSON(String(repeating: "[", count: 32) + String(repeating: "]", count: 32)) != nil)
        #expect(JSON(String(repeating: "[", count: 33) + String(repeating: "]", count: 33)) == nil)
        #expect(JSON(String(repeating: "[", count: 1_000_000)) == nil)
    }
}

@Suite struct TableTests {
    @Test func columnsAreAligned() {
        let rows = [
            #"{"id":1,"topic":"a.b","peer":"127.0.0.1:5","policy":"block","buffer":16,"#
                + #""requested":"unbounded","outstanding":"unbounded","delivered":123456,"waiting":0,"#
                + #""dropped":0,"new":[]}"#,
            #"{"id":12,"topic":"long.name","policy":"x\u001b[2J","buffer":1024,"requested":7,"delivered":7}"#, "3",
        ].map { JSON($0)! }
        #expect(
            Table.render(Table.subscriptions, rows) == """
                ID  TOPIC      PEER         POLICY    BUFFER  REQUESTED       LEFT  DELIVERED  WAITING  DROPPED
                1   a.b        127.0.0.1:5  block         16  unbounded  unbounded     123456        0        0
                12  long.name  -            x\\x1b[2J    1024          7          -          7        -        -
                -   -          -            -              -          -          -          -        -        -

                """)
        // If there are users, they have a column.
        let two = [#"{"id":"0-1-1","user":"ann"}"#, #"{"id":"0-2-1"}"#].map { JSON($0)! }
        let named = Table.render(Table.connections, two)
        let begins = named.split(separator: "\n").map { $0.split(separator: " ").prefix(3).joined(separator: " ") }
        #expect(begins == ["ID PEER USER", "0-1-1 - ann", "0-2-1 - -"])
        #expect(Table.render(Table.topics, []).split(separator: "\n").count == 1)
    }

    @Test func details() {
        let text = Table.details(JSON(#"{"name":"a","epoch":"12","bytes":2048,"state":"live","error":null}"#)!)
        #expect(text == "name   a\nepoch  12\nbytes  2.0 KiB\nstate  live\nerror  -\n")
        #expect(Table.details(.null) == nil)
    }

    @Test func units() {
        #expect(
            [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, 5 << 30, .max].map(Units.bytes) == [
                "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "16777216.0 TiB",
            ])
        #expect(
            [950, 12_345, 245_000, 12_000_000, 200_000_000].map { Units.duration(milliseconds: $0) } == [
                "950 ms", "12.3 s", "4 min 05 s", "3 h 20 min", "2 d 7 h",
            ])
        #expect([0, 999, 1000, 1_234_567].map(Units.grouped) == ["0", "999", "1,000", "1,234,567"])
        #expect(Units.rate(3.25) == "3.3/s" && Units.rate(12345.6) == "12,346/s")
        #expect(Units.rate(9.94) == "9.9/s" && Units.rate(9.96) == "10/s" && Units.count(9.96) == "10")
        #expect(Units.count(999_999) == "999,999" && Units.bytes((1 << 30) - 1) == "1.0 GiB")
    }

    @Test func progress() {
        #expect(
            Progress.line(sent: 1_234_567, rate: 98765, credit: 512, ending: false)
                == "1,234,567 messages · 98,765/s · credit 512")
        #expect(Progress.line(sent: 1, rate: 0, credit: 0, ending: false).hasSuffix("waiting for credit"))
        #expect(Progress.line(sent: 1, rate: 0, credit: 0, ending: true).hasSuffix("waiting for the acknowledgement"))
    }
}

@Suite struct LineReaderTests {
    private func lines(_ text: String, step: Int, limit: Int = 100) -> [String] {
        var reader = LineReader(limit: limit)
        var out: [String] = []
        let bytes = Array(text.utf8)
        var place = 0
        while true {
            switch reader.next() {
            case .line(let line): out.append(String(decoding: line, as: UTF8.self))
            case .end: return out
            case .tooLong: return out + ["TOO LONG"]
            case .none:
                let part = bytes[place..<min(place + step, bytes.count)]
                if part.isEmpty {
                    reader.end()
                } else {
                    part.withUnsafeBytes {
                        reader.reserve(part.count).copyMemory(from: $0.baseAddress!, byteCount: part.count)
                    }
                    reader.commit(part.count)
                }
                place += part.count
            }
        }
    }

    @Test(arguments: [1, 2, 3, 7, 1000])
    func linesInPieces(step: Int) {
        #expect(lines("one\n\nthree\r\nlast", step: step) == ["one", "", "three\r", "last"])
        #expect(lines("one\n", step: step) == ["one"])
        #expect(lines("", step: step) == [])
        #expect(lines("\n\n", step: step) == ["", ""])
        #expect(lines("12345\n123456\n1\n", step: step, limit: 5) == ["12345", "TOO LONG"])
        #expect(lines("12345", step: step, limit: 5) == ["12345"])
        #expect(lines("123456", step: step, limit: 5) == ["TOO LONG"])
    }
}

@Suite struct PacerTests {
    @Test func keepsTheRate() {
        var pacer = Pacer(rate: 10, now: 0)
        var times: [UInt64] = []
        var now: UInt64 = 0
        while times.count < 5 {
            if pacer.isDue(now) {
                times.append(now)
                pacer.sent(now: now)
            } else {
                now = pacer.next
            }
        }
        #expect(times == [0, 100_000_000, 200_000_000, 300_000_000, 400_000_000])
    }

    @Test func catchesUpALittleOnly() {
        var pacer = Pacer(rate: 1000, now: 0)
        pacer.sent(now: 0)
        // Ten seconds without credit: afterwards a tenth of a second's worth is sent at once, not ten thousand.
        var burst = 0
        while pacer.isDue(10_000_000_000) {
            pacer.sent(now: 10_000_000_000)
            burst += 1
        }
        #expect((100...101).contains(burst))
    }
}

@Suite struct ViewTests {
    private func state() -> ViewState {
        var state = ViewState(topic: "host.vmstat", address: "127.0.0.1:7690")
        state.credit = 12
        state.granted = 100
        state.delivered = 88
        state.rate = 3.2
        state.waiting = 512
        state.buffer = 1024
        state.policy = "drop-oldest"
        state.dropped = 17
        state.note = "Granted 10 more."
        state.messages = (1...3).map {
            .init(sequence: $0, clock: "12:00:00.00\($0)", text: "message \($0)", dropped: $0 == 2 ? 5 : 0)
        }
        return state
    }

    @Test func wholeScreen() {
        let lines = View.render(state(), width: 80, height: 14)
        #expect(
            lines.map(\.text) == [
                " host.vmstat" + String(repeating: " ", count: 47) + "127.0.0.1:7690  live ",
                "",
                " credit     12              granted 100",
                " waiting    512 of 1,024    ██████████░░░░░░░░░░  drop-oldest",
                " dropped    17              last: 5 before #2",
                " delivered  88              3.2/s",
                "",
                " #1 12:00:00.001 message 1",
                " #2 12:00:00.002 message 2",
                " #3 12:00:00.003 message 3",
                "", "",
                " Granted 10 more.",
                " 1 one more   0 ten   c hundred   a all   p pause   q quit",
            ])
        #expect(lines[0].style == .title && lines[4].style == .warning && lines[8].style == .warning)
    }

    @Test func newestMessagesStay() {
        var state = state()
        state.messages = (1...400).map { .init(sequence: $0, clock: "c", text: "m", dropped: 0) }
        let lines = View.render(state, width: 80, height: 12).map(\.text)
        #expect(lines.contains(" #400 c m") && lines.contains(" #398 c m") && !lines.contains(" #397 c m"))
    }

    @Test func everySizeFits() {
        var state = state()
        state.messages.append(.init(sequence: 4, clock: "c", text: String(repeating: "漢字", count: 90), dropped: 0))
        state.waiting = .max
        state.buffer = 1
        for width in 1...100 {
            for height in 1...24 {
                let lines = View.render(state, width: width, height: height)
                #expect(lines.count == height)
                #expect(lines.allSatisfy { View.columns($0.text) <= width })
                // The list of keys is the last to be dropped.
                #expect(lines.last?.text.hasPrefix(width > 2 ? " 1" : "") == true)
            }
        }
        #expect(View.render(state, width: 0, height: 5).isEmpty)
    }

    @Test func states() {
        var state = state()
        state.waiting = nil
        #expect(View.render(state, width: 80, height: 14)[3].text.hasPrefix(" waiting    not known"))
        state.credit = 0
        #expect(View.render(state, width: 80, height: 14)[0].text.hasSuffix("no credit "))
        state.isFlowing = true
        #expect(View.render(state, width: 80, height: 14)[0].text.hasSuffix("flowing "))
        state.status = .completed
        let lines = View.render(state, width: 80, height: 14)
        #expect(lines[0].text.hasSuffix("completed ") && lines[13].text == " q quit")
    }

    @Test func rowsAreInOrderOfTopicsAndAge() throws {
        func row(_ topic: String, _ id: Int) throws -> JSON {
            try #require(JSON(#"{"id":\#(id),"topic":"\#(topic)"}"#))
        }
        var rows = [try row("b", 3), try row("a", 102), try row("a", 12), try row("a", 9)]
        rows.sort { ListRequest.precedes($0, $1, by: "topic") }
        #expect(rows.map { $0["id"]?.text } == ["9", "12", "102", "3"])
    }

    @Test func clipping() {
        #expect(View.clip("abcdef", 6) == "abcdef")
        #expect(View.clip("abcdefg", 6) == "abcde…")
        #expect(View.clip("ünïcöd", 6) == "ünïcöd")
        #expect(View.clip("漢字漢字", 8) == "漢字漢字")
        #expect(View.clip("漢字漢字", 7) == "漢字漢…")
        #expect(View.clip("漢字漢字", 6) == "漢字…")
    }
}
