// Every input that the fuzzers' corpora and regressions keep, run by its target: what was found once stays mended.

import Foundation
import Testing

@testable import Server

struct KeptInput: Sendable, CustomTestStringConvertible {
    var target: FuzzTarget
    var file: URL
    var testDescription: String { "\(target.name)/\(file.lastPathComponent)" }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// Those of one kind, `corpus` or `regressions`, of a target; of all targets if it is nil.
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

/// What is being run, for a report to name it.
private enum Input {
    @TaskLocal static var name = ""
}

/// What a target found.
func report(_ what: String) { Issue.record("\(Input.name): \(what)") }

@Suite struct ReplayTests {
    /// Of each target by itself: an input that ends the process is told by the target that began last.
    @Test(arguments: FuzzTarget.all.map(\.name)) func whatIsKeptHolds(of name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let corpus = KeptInput.all("corpus", of: target)
        #expect(!corpus.isEmpty, "there is no corpus")
        for input in corpus + KeptInput.all("regressions", of: target) { try input.run() }
    }

    /// A fuzzer finds no name of a setting by itself.
    @Test func theDictionaryOfTheConfigurationHasEverySetting() throws {
        let file = KeptInput.folder.appending(path: "dictionaries/configuration.dict")
        let words = Set(try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init))
        for setting in Setting.all { #expect(words.contains("\"\(setting.name): \"")) }
    }

    @Test func everyTargetTakesNothing() {
        for target in FuzzTarget.all { target.run(UnsafeRawBufferPointer(start: nil, count: 0)) }
    }
}
