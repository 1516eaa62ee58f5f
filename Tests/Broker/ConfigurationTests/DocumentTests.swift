// How a configuration file's text is parsed, and where and how errors are reported.

import Testing

@testable import Configuration

@Suite struct DocumentTests {
    private func parse(_ text: String) throws(Fault) -> Node? { try Document.parse(Array(text.utf8)) }

    private func node(_ content: Node.Content, _ line: Int, _ column: Int) -> Node {
        Node(content, at: Place(line: line, column: column))
    }

    @Test(arguments: ["", "\n\n", "# nothing\n", "---\n", "---\n...\n", "~", "\u{FEFF}"])
    func nothingIsNothing(text: String) throws {
        #expect(try parse(text) == nil)
    }

    @Test func everythingHasItsPlace() throws {
        let text = """
            a: 1   # one
            "b c": 'off'

            list: [x, "y"]
            deep:
              - k: v
                n:
            """
        let record = node(
            .mapping([
                .init(key: "k", place: Place(line: 6, column: 5), value: node(.text("v"), 6, 8)),
                .init(key: "n", place: Place(line: 7, column: 5), value: node(.nothing, 7, 7)),
            ]), 6, 5)
        let root = Node.Content.mapping([
            .init(key: "a", place: Place(line: 1, column: 1), value: node(.text("1"), 1, 4)),
            .init(key: "b c", place: Place(line: 2, column: 1), value: node(.text("off"), 2, 8)),
            .init(
                key: "list", place: Place(line: 4, column: 1),
                value: node(.list([node(.text("x"), 4, 8), node(.text("y"), 4, 11)]), 4, 7)),
            .init(key: "deep", place: Place(line: 5, column: 1), value: node(.list([record]), 6, 3)),
        ])
        #expect(try parse(text) == node(root, 1, 1))
    }

    @Test(arguments: ["no", "0x10", "1_000", "12:30:45", "2026-01-01", ".inf", "NULL", "yes"])
    func plainTextsAreTexts(text: String) throws {
        #expect(try parse(text)?.content == .text(text))
    }

    @Test(arguments: [
        ("a: 1\na: 2", 2, 1, "a: duplicate key, first used in line 1"),
        ("a: 1\n\"a\": 2", 2, 1, "duplicate key"),
        ("a: {b: 1, b: 2}", 1, 11, "b: duplicate key, first used in line 1"),
        ("a: &x 1", 1, 4, "anchors"), ("a: &x [1]", 1, 4, "anchors"), ("a: &x {b: 1}", 1, 4, "anchors"),
        ("&x a: 1", 1, 1, "anchors"),
        ("a: *x", 1, 4, "aliases"), ("*x : 1", 1, 1, "aliases"), ("- a\n- *b", 2, 3, "aliases"),
        ("a: !!str 1", 1, 4, "tags"), ("a: !x [1]", 1, 4, "tags"), ("!!map {a: 1}", 1, 1, "tags"),
        ("a: 1\n---\nb: 2", 2, 1, "a second document"), ("a\n...\n---\nb", 3, 1, "a second document"),
        ("? [a]\n: b", 1, 3, "a key is missing"),
        ("~: b", 1, 1, "a key is missing"),
        ("a: \"x\\0y\"", 1, 4, "NUL"),
        ("a: 1\n\tb: 2", 2, 1, "this is not YAML"), ("a: b: c", 1, 5, "this is not YAML"),
        ("a: [1, 2", 2, 1, "this is not YAML"), ("a: 'x", 1, 4, "this is not YAML"),
        ("a: @x", 1, 4, "this is not YAML"),
        ("a: 1\n b: 2", 2, 3, "this is not YAML"), ("%FOO\na", 1, 1, "this is not YAML"),
        ("a: %x", 1, 4, "this is not YAML"), ("{a: 1", 2, 1, "this is not YAML"),
    ])
    func refuses(text: String, line: Int, column: Int, why: String) throws {
        let fault = try #require(throws: Fault.self) { try parse(text) }
        #expect(fault.sentence.contains(why), "\(fault)")
        #expect(fault.place.line == line, "\(fault)")
        if !why.contains("not YAML") { #expect(fault.place.column == column, "\(fault)") }
        #expect(fault.sentence.contains("write") || fault.sentence.contains("leave it out"), "\(fault)")
    }

    @Test(
        arguments: [[0x61, 0x0A, 0xFF], [0x61, 0x0A, 0xC3], [0x61, 0x0A, 0x00], [0x61, 0x0A, 0xED, 0xA0, 0x80]]
            as [[UInt8]])
    func refusesWhatIsNoText(bytes: [UInt8]) throws {
        let fault = try #require(throws: Fault.self) { try Document.parse(bytes) }
        #expect(fault.place.line == 2 && fault.sentence.contains("UTF-8"), "\(fault)")
    }

    @Test func sizeCountAndDepthAreBounded() throws {
        let comment = "#" + String(repeating: "x", count: Document.longest - 1)
        #expect(try parse(comment) == nil)
        #expect(throws: Fault.self) { try parse(comment + "x") }

        func deep(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(try parse(deep(Document.deepest)) != nil)
        let fault = try #require(throws: Fault.self) { try parse(deep(Document.deepest + 1)) }
        #expect(fault.place == Place(line: 1, column: Document.deepest + 1) && fault.sentence.contains("deep"))
        #expect(throws: Fault.self) { try parse(String(repeating: "[", count: Document.longest)) }
        #expect(throws: Fault.self) { try parse(String(repeating: "{", count: Document.longest)) }
        #expect(throws: Fault.self) { try parse(String(repeating: "- ", count: Document.longest / 2)) }

        let many = String(repeating: "- 1\n", count: Document.mostNodes - 1)
        #expect(try parse(many) != nil)
        #expect(throws: Fault.self) { try parse(many + "- 1\n") }
    }

    /// Any input gives a node, or a fault with a position in the file. Random combinations of YAML fragments get
    /// further than random bytes would.
    @Test func anythingIsReadOrRefused() {
        var state: UInt64 = 0x9E37_79B9_7F4A_7C15
        func random(_ bound: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state % UInt64(bound))
        }
        let pieces: [[UInt8]] =
            [
                "a", "b: ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ",", ": ", "? ", "#", "&a ", "*a", "!t ",
                "'", "\"", "|", ">", "%", "---\n", "...\n", "\t", "\\x00", "~",
            ]
            .map { Array($0.utf8) } + [[0xFF], [0], [0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xE2, 0x80, 0xA8]]
        var read = 0
        var refused = 0
        for _ in 0..<20_000 {
            var bytes: [UInt8] = []
            for _ in 0..<random(24) { bytes += pieces[random(pieces.count)] }
            do throws(Fault) {
                _ = try Document.parse(bytes)
                read += 1
            } catch {
                refused += 1
                let lines = bytes.count { [0x0A, 0x0D, 0x85, 0xA8].contains($0) } + 2
                #expect(error.place.line >= 1 && error.place.line <= lines && error.place.column >= 1, "\(error)")
            }
        }
        #expect(read > 500 && refused > 500, "\(read) \(refused)")
    }
}
