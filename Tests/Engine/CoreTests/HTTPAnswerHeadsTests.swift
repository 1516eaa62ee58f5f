// HTTPAnswerHeadsTests: a cached head equals one built from scratch.

import Testing

@testable import Core
@testable import HTTP2

struct HTTPAnswerHeadsTests {
    private static let second: Int64 = 1_000_000_000

    private func answer(_ body: String, _ more: [PlainHeader] = []) -> PlainAnswer {
        PlainAnswer(
            status: 200, headers: [PlainHeader("content-type", "text/plain")] + more, body: Array(body.utf8),
            omitsBody: false)
    }

    /// Names and values, as they would be sent.
    private func text(_ fields: HTTPFields) -> [String] {
        var lines: [String] = []
        var start = 0
        for end in fields.ends {
            let name = String(decoding: fields.bytes[start..<end.name], as: UTF8.self)
            lines.append(name + ": " + String(decoding: fields.bytes[end.name..<end.value], as: UTF8.self))
            start = end.value
        }
        return lines
    }

    @Test func whateverDiffersMakesAnotherHead() {
        let answers = [
            answer("a"), answer("b"), answer("ab"), answer(""), answer("a", [PlainHeader("vary", "origin")]),
            answer("a"),
        ]
        let times = [0, HTTPAnswerHeadsTests.second - 1, HTTPAnswerHeadsTests.second, 0]
        var heads = AnswerHeads()
        for time in times {
            for answer in answers {
                var fresh = AnswerHeads()
                let expected = text(fresh.fields(of: answer, wall: time))
                #expect(text(heads.fields(of: answer, wall: time)) == expected)
                #expect(text(heads.fields(of: answer, wall: time)) == expected)
            }
        }
    }

    @Test func theHeadHasDateHeadersAndLength() {
        var heads = AnswerHeads()
        #expect(
            text(heads.fields(of: answer("abc"), wall: 86_400 * HTTPAnswerHeadsTests.second)) == [
                "date: Fri, 02 Jan 1970 00:00:00 GMT", "content-type: text/plain", "content-length: 3",
            ])
        #expect(text(heads.fields(of: answer(""), wall: 0)).count == 2)
    }
}
