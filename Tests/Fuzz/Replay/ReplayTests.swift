// Runs every input in the fuzzers' corpora and regressions through its target, so that fixed bugs stay fixed.

import Foundation
import Testing

@testable import Server

struct KeptInput: Sendable, CustomTestStringConvertible {
    var target: FuzzTarget
    var file: URL
    var testDescription: String { "\(target.name)/\(file.lastPathComponent)" }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// The inputs of one kind, `corpus` or `regressions`, for `target`.
    static func all(_ kind: String, of target: FuzzTarget) -> [KeptInput] {
        let folder = folder.appending(path: kind).appending(path: target.name)
        let files = (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        return files.filter { !$0.lastPathComponent.hasPrefix(".") }
            .sorted { $0.lastPathComponent < $1.lastPathComponent }.map { KeptInput(target: target, file: $0) }
    }

    func run() throws {
        let bytes = try Data(contentsOf: file)
        Input.$name.withValue(testDescription) { bytes.withUnsafeBytes { target.run($0) } }
    }
}

/// The name of the current input, for reports.
private enum Input {
    @TaskLocal static var name = ""
}

/// Records a target's finding.
func report(_ what: String) { Issue.record("\(Input.name): \(what)") }

@Suite struct ReplayTests {
    /// Each target is a separate test case: if an input ends the process, the case that began last is to blame.
    @Test(arguments: FuzzTarget.all.map(\.name)) func whatIsKeptHolds(of name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let corpus = KeptInput.all("corpus", of: target)
        #expect(!corpus.isEmpty, "the corpus is empty")
        for input in corpus + KeptInput.all("regressions", of: target) { try input.run() }
    }

    /// A fuzzer does not discover the names of settings by itself.
    @Test func theDictionaryOfTheConfigurationHasEverySetting() throws {
        let file = KeptInput.folder.appending(path: "dictionaries/configuration.dict")
        let words = Set(try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init))
        for setting in Setting.all { #expect(words.contains("\"\(setting.name): \"")) }
    }

    @Test func everyTargetTakesNothing() {
        for target in FuzzTarget.all { target.run(UnsafeRawBufferPointer(start: nil, count: 0)) }
    }
}
