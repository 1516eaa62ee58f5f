// Checks that every row of the guarantees and every operator has a test.

import Foundation
import Streams
import Testing

@Suite("Nothing is left out")
struct CompletenessTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The text of all Swift sources in a directory.
    private func sources(_ directory: String) throws -> String {
        let url = CompletenessTests.root.appending(path: directory).resolvingSymlinksInPath()
        let files = try #require(FileManager.default.enumerator(at: url, includingPropertiesForKeys: nil))
        var text = ""
        for case let file as URL in files where file.pathExtension == "swift" {
            text += try String(contentsOf: file, encoding: .utf8) + "\n"
        }
        return text
    }

    @Test("each of the rows 1 to 25 names a test")
    func rows() throws {
        var named: Set<Int> = []
        let text = try sources("Tests/Streams/StreamsTests")
        for match in text.matches(of: /@(?:Test|Suite)\(\s*"[Rr]ows? ([0-9]+)(?: and ([0-9]+))?/) {
            named.formUnion([match.1, match.2 ?? match.1].compactMap { Int($0) })
        }
        #expect(Set(1...25).subtracting(named) == [])
    }

    /// Publishers without an upstream, and so without a line; `SourcesTests` and `AsyncTests` test them.
    private static let beginnings: Set<String> = ["Sequence", "AsyncElements"]

    @Test("each operator has a line in the matrix")
    func operators() throws {
        let text = try sources("Sources/Streams/StreamsCore") + sources("Sources/Streams/Streams")
        let declared = text.matches(
            of: /\n    public (?:final )?(?:struct|class) ([A-Za-z0-9]+)<[^{]*>: (?:Connectable)?Publisher/)
        let lines = Line.all.flatMap { $0.type.matches(of: /Publishers\.([A-Za-z0-9]+)/).map { String($0.1) } }
        #expect(declared.count > 80)
        let missing = Set(declared.map { String($0.1) }).subtracting(CompletenessTests.beginnings).subtracting(lines)
        #expect(missing == [])
    }
}
