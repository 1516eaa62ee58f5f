// What a server sent, split into operations, and made comparable with captures: see capture.py.

import Foundation
import Testing

/// One operation of a server.
struct Operation {
    /// The words of its line.
    var words: [String]
    /// Headers and payload, for MSG and HMSG.
    var body = ""

    var isMessage: Bool { words[0] == "MSG" || words[0] == "HMSG" }
    var subject: String { words[1] }
    var subscription: Int { Int(words[2]) ?? 0 }
    /// Bytes of headers.
    private var headerSize: Int { words[0] == "HMSG" ? Int(words[words.count - 2]) ?? 0 : 0 }
    var payload: String { String(decoding: body.utf8.dropFirst(headerSize), as: UTF8.self) }

    /// The first value of a header.
    subscript(name: String) -> String? {
        body.components(separatedBy: "\r\n").first { $0.hasPrefix(name + ": ") }.map {
            String($0.dropFirst(name.count + 2))
        }
    }

    /// Splits output. Nil if it is not well-formed.
    static func split(_ bytes: [UInt8]) -> [Operation]? {
        var operations: [Operation] = []
        var rest = bytes[...]
        while let end = rest.firstIndex(of: 0x0A) {
            guard end > rest.startIndex, rest[end - 1] == 0x0D else { return nil }
            let line = String(decoding: rest[rest.startIndex..<end - 1], as: UTF8.self)
            rest = rest[(end + 1)...]
            var operation = Operation(words: line.components(separatedBy: " "))
            if operation.isMessage {
                guard let size = operation.words.last.flatMap({ Int($0) }), rest.count >= size + 2 else { return nil }
                operation.body = String(decoding: rest.prefix(size), as: UTF8.self)
                rest = rest.dropFirst(size)
                guard rest.prefix(2).elementsEqual([0x0D, 0x0A]) else { return nil }
                rest = rest.dropFirst(2)
            }
            operations.append(operation)
        }
        return rest.isEmpty ? operations : nil
    }

    /// The line of a capture.
    var captured: String {
        var line = words
        if isMessage {
            for index in (line.count - (words[0] == "HMSG" ? 2 : 1))..<line.count { line[index] = "<size>" }
        }
        var text = line.joined(separator: " ") + "\r\n" + (isMessage ? body + "\r\n" : "")
        text = text.replacing(#/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/#, with: "<time>")
        return text.replacing(#/"cluster":\{.*\},"ts"/#, with: "\"cluster\":<cluster>,\"ts\"")
    }
}

/// One case of captures.txt.
struct Case: Sendable, CustomTestStringConvertible {
    struct Step: Sendable {
        var sent: String
        var answers: [String] = []
    }

    var name: String
    var servers: Int
    var steps: [Step] = []

    var testDescription: String { name }

    static let all: [Case] = {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("captures.txt")
        var cases: [Case] = []
        var servers = 1
        for line in ((try? String(contentsOf: file, encoding: .utf8)) ?? "").split(separator: "\n") {
            let rest = String(line.dropFirst(2))
            switch line.first {
            case "=": cases.append(Case(name: rest, servers: servers))
            case ">": cases[cases.count - 1].steps.append(Step(sent: unescaped(rest)))
            case "<":
                let last = cases.count - 1
                cases[last].steps[cases[last].steps.count - 1].answers.append(unescaped(rest))
            default: if rest == "cluster" { servers = 3 }
            }
        }
        return cases
    }()

    private static func unescaped(_ text: String) -> String {
        var result = ""
        var isEscaped = false
        for character in text {
            if isEscaped {
                result += ["r": "\r", "n": "\n", "t": "\t"][character] ?? String(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else {
                result.append(character)
            }
        }
        return result
    }
}
