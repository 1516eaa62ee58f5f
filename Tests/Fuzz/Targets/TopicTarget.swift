// Topic names and patterns, compared with a matcher written from the specification.

import ForebayWire
import RSocket

@testable import Core

func fuzzTopic(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let text = input.part(before: 10).asText
    let name = input.rest.asText
    let isName = TopicName.fault(name) == nil
    let shouldBe = name.utf8.count <= 255 && tokens(name).allSatisfy(isToken)
    mustHold(isName == shouldBe, "\(name) is a name: \(isName)")
    do throws(TopicPatternError) {
        let pattern = try TopicPattern(parsing: text)
        mustHold(pattern.description == text && text.utf8.count <= 255, "a pattern is written differently")
        // Patterns match names; the names of the broker's own topics are valid, but publishers may not use them.
        guard isName || (name.hasPrefix("$SYS.") && TopicName.fault(String(name.dropFirst(5))) == nil) else { return }
        let expected = matches(tokens(text), tokens(name)) && (name.hasPrefix("$") ? text.hasPrefix("$") : true)
        mustHold(pattern.matches(name) == expected, "\(text) and \(name): \(expected) was expected")
        mustHold(TopicSet([pattern]).contains(name) == expected, "a set with it differs")
        if isName, let itself = try? TopicPattern(parsing: name) {
            mustHold(itself.matches(name), "\(name) does not match itself")
        }
    } catch {
        mustHold(!error.description.isEmpty, "the error has no text")
    }
}

private func tokens(_ text: String) -> [[UInt8]] {
    Array(text.utf8).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
}

private func isToken(_ token: [UInt8]) -> Bool { !token.isEmpty && token.allSatisfy(TopicName.allows) }

private func matches(_ pattern: [[UInt8]], _ name: [[UInt8]]) -> Bool {
    guard let first = pattern.first else { return name.isEmpty }
    if first == Array(">".utf8) { return !name.isEmpty }
    guard let token = name.first, first == Array("*".utf8) || first == token else { return false }
    return matches(Array(pattern.dropFirst()), Array(name.dropFirst()))
}
