// AnswerHeads: the header fields of responses. Responses to publishes have the same fields until the date changes, so
// the previous ones are kept and reused if nothing differs.

import HTTP2

struct AnswerHeads {
    private var second: Int64 = -1
    private var length = 0
    private var headers: [PlainHeader] = []
    private var kept = HTTPFields()

    /// The fields of a response: its own, the date, and the length of its body if it has one.
    ///
    /// - Parameter wall: the time, in nanoseconds since 1970 UTC.
    mutating func fields(of answer: PlainAnswer, wall: Int64) -> HTTPFields {
        let now = wall / 1_000_000_000
        // Usually this is the same array in memory, so the comparison is immediate.
        if now == second, answer.body.count == length, answer.headers == headers { return kept }
        second = now
        length = answer.body.count
        headers = answer.headers
        kept = HTTPFields()
        kept.add("date", HTTPDate.text(wall))
        for header in headers { kept.add(header.name, header.value) }
        if length > 0 { kept.add("content-length", String(length)) }
        return kept
    }
}
