// The table of limits in Docs/configuration.md matches the code.

import Configuration
import Foundation
import Testing

@testable import Core
@testable import Server

@Suite struct LimitsDocumentTests {
    private struct Row {
        var limit: String
        var keys: [String]
        var standards: [String]
        var effect: String
    }

    private func rows() throws -> [Row] {
        let path = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Docs/configuration.md")
        let text = try String(contentsOf: path, encoding: .utf8)
        let section = try #require(text.split(separator: "\n## Limits\n").dropFirst().first)
        return section.split(separator: "\n").prefix { !$0.hasPrefix("#") }.filter { $0.hasPrefix("|") }.dropFirst(2)
            .map { line in
                let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                func words(_ cell: String) -> [String] {
                    cell.split(separator: ",").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `")) }
                }
                return Row(
                    limit: cells[0], keys: words(cells[1]).filter { !$0.isEmpty }, standards: words(cells[2]),
                    effect: cells[3])
            }
    }

    @Test func everyLimitHasARow() throws {
        #expect(try rows().map(\.limit) == LimitReached.allCases.map(\.name))
        for row in try rows() { #expect(!row.effect.isEmpty, "\(row.limit)") }
    }

    @Test func keysAndDefaultsAreThoseOfTheSettings() throws {
        for row in try rows() {
            let settings = row.keys.map { Setting.named($0) }
            #expect(
                settings.allSatisfy { $0.map { $0.isReloadable || $0.group == .upstream } == true },
                "\(row.limit): \(row.keys)")
            guard !settings.isEmpty else { continue }
            #expect(settings.map { $0?.line(Options()) } == row.standards, "\(row.limit)")
        }
    }

    @Test func limitsWithoutAKeyAreAsTold() throws {
        let fixed = try rows().filter(\.keys.isEmpty)
        let reported = Dictionary(uniqueKeysWithValues: fixed.map { ($0.limit, $0.standards[0]) })
        let limits = Limits()
        #expect(
            reported == [
                "events": formatByteSize(Reports.eventBytes),
                "lists-per-connection": String(limits.listsPerConnection),
                "publishers": String(limits.publishers),
                "publishers-per-topic": String(limits.publishersPerTopic), "pattern-positions": "a quarter of `memory",
                "keepalive-data": formatByteSize(limits.keepaliveData),
                "control-output": formatByteSize(limits.controlOutput),
                "lifetime": "\(limits.lifetime.upperBound / Limits.second / 60)m",
            ])
    }

    @Test func everySettingThatLimitsIsThere() throws {
        let keys = Set(try rows().flatMap(\.keys))
        for setting in Setting.all where setting.name.hasPrefix("max-") {
            #expect(keys.contains(setting.name), "\(setting.name)")
        }
    }

    @Test func countersHaveNamesOfTheirOwn() {
        #expect(Set(LimitReached.allCases.map(\.name)).count == LimitReached.allCases.count)
        #expect(LimitReached.allCases.count <= Tally<LimitReached>.capacity)
    }
}
