// Protocol/http.md documents every refusal, and its examples of streams match the output.

import Foundation
import Testing

@testable import HTTP2

struct DocumentTests {
    private let document: String

    init() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../../Protocol/http.md").standardizedFileURL
        document = try String(contentsOf: file, encoding: .utf8)
    }

    @Test func everyRefusalIsInTheTable() {
        let rows = Set(
            document.split(separator: "\n").compactMap { line -> String? in
                let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
                return cells.count == 3 && cells[1].hasPrefix("`/problems/") ? "\(cells[0]) \(cells[1])" : nil
            })
        #expect(rows == Set(Problem.Kind.allCases.map { "\($0.status) `/problems/\($0.rawValue)`" }))
    }

    @Test func streamsAreAsShown() throws {
        var first = Sample("two\nlines")
        first.epoch = 6_616_333_571_386_961_933
        first.sequence = 7
        var second = Sample([0xFF, 0xD8, 0xFF, 0xE0, 0x00, 0x10])
        second.epoch = first.epoch
        second.sequence = 11
        second.dropped = 3
        let stream = try #require(first.record(.eventStream)) + #require(second.record(.eventStream))
        #expect(document.contains("```\n\(text(stream))```\n"))
        var line = Sample("4.1 C")
        line.epoch = first.epoch
        line.sequence = 1
        line.timestamp = 1_763_709_159_000_000_001
        line.metadata = written { append(contentType: "text/plain", into: &$0) }
        #expect(document.contains("\n" + text(try #require(line.record(.jsonLines)))))
    }

    @Test func problemsAndAnswersAreAsShown() throws {
        let plain = PlainProtocol()
        let problem = try #require(refusal(request("GET", "/v1/topics/a/messages?request=0")))
        #expect(document.contains("\n" + text(plain.answer(problem, to: request("GET", "/")).body) + "```"))
        let answer = plain.answerPublished(sequence: 2, epoch: 6_616_333_571_386_961_933, origin: nil)
        #expect(document.contains("\n" + text(answer.body) + "```"))
    }
}
