// TopicPattern: selects the topics to which a rule applies. Tokens are joined by dots as in a topic's name; `*` matches
// any one token and `>`, as the last token, one or more tokens.
//
//     orders.*     matches orders.eu, but neither orders nor orders.eu.fr
//     orders.>     matches orders.eu and orders.eu.fr, but not orders
//     >            matches every topic except the broker's own; their patterns must begin with $SYS

import ForebayWire

/// A text that is not a valid pattern. `description` is a sentence that says what to write instead.
public struct TopicPatternError: Error, Equatable, CustomStringConvertible, Sendable {
    public var text: String
    /// The part of the sentence after the text: "is not a topic pattern: …".
    public var words: String

    public var description: String { "'\(text.prefix(TopicName.longest))' \(words)" }
}

/// A pattern of topic names, as in NATS: `*` matches one token and `>` the rest. Names that begin with `$SYS.` match
/// only patterns that begin the same way, so that a rule for all topics does not grant access to the broker's own.
public struct TopicPattern: Hashable, Sendable, CustomStringConvertible {
    private let bytes: [UInt8]

    /// Parses a pattern of at most 255 bytes.
    public init(parsing text: String) throws(TopicPatternError) {
        if let fault = TopicPattern.fault(Array(text.utf8)) {
            throw TopicPatternError(
                text: text, words: "is not a topic pattern: \(fault), for example orders.eu, orders.* or orders.>")
        }
        bytes = Array(text.utf8)
    }

    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }

    /// Bytes of its text: at most 255.
    var size: Int { bytes.count }
    /// How often it counts towards `max-patterns`: once for every 4 tokens, rounded up, because a new topic may have to
    /// be compared with all tokens of all patterns.
    var weight: Int { bytes.count { $0 == TopicPattern.dot } / 4 + 1 }

    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// Whether the pattern matches only the broker's own topics.
    public var isOfBroker: Bool { bytes[0] == TopicPattern.system }

    /// Whether the pattern matches `name`, which must be a valid topic name. Allocates nothing for native Swift
    /// strings.
    public func matches(_ name: String) -> Bool {
        name.utf8.withContiguousStorageIfAvailable(matches) ?? Array(name.utf8).withUnsafeBufferPointer(matches)
    }

    /// The same for a name's UTF-8 bytes.
    public func matches(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        if name.first == TopicPattern.system, bytes[0] != TopicPattern.system { return false }
        var at = 0
        for byte in bytes {
            switch byte {
            case TopicPattern.rest: return at < name.count
            case TopicPattern.one:
                let begin = at
                while at < name.count, name[at] != TopicPattern.dot { at += 1 }
                if at == begin { return false }
            default:
                guard at < name.count, name[at] == byte else { return false }
                at += 1
            }
        }
        return at == name.count
    }

    /// Whether every name that `other` matches is matched by this pattern.
    public func covers(_ other: TopicPattern) -> Bool {
        if isOfBroker != other.isOfBroker { return false }
        let (mine, others) = (bytes.split(separator: TopicPattern.dot), other.bytes.split(separator: TopicPattern.dot))
        for (one, another) in zip(mine, others) {
            if one.first == TopicPattern.rest { return true }
            if another.first == TopicPattern.rest { return false }
            guard one == another || one.first == TopicPattern.one else { return false }
        }
        return mine.count == others.count
    }

    /// Whether a name can match both patterns.
    public func overlaps(_ other: TopicPattern) -> Bool {
        if isOfBroker != other.isOfBroker { return false }
        let (mine, others) = (bytes.split(separator: TopicPattern.dot), other.bytes.split(separator: TopicPattern.dot))
        for (one, another) in zip(mine, others) {
            if one.first == TopicPattern.rest || another.first == TopicPattern.rest { return true }
            guard one == another || one.first == TopicPattern.one || another.first == TopicPattern.one else {
                return false
            }
        }
        return mine.count == others.count
    }

    private static let one = UInt8(ascii: "*")
    private static let rest = UInt8(ascii: ">")
    private static let dot = UInt8(ascii: ".")
    private static let system = UInt8(ascii: "$")

    /// What is wrong with `text`, as the part of a sentence after a colon.
    private static func fault(_ text: [UInt8]) -> String? {
        if text.isEmpty { return "it is empty; write tokens joined by dots" }
        if text.count > TopicName.longest {
            return "it has \(text.count) bytes; write at most \(TopicName.longest)"
        }
        let tokens = text.split(separator: dot, omittingEmptySubsequences: false)
        for (index, token) in tokens.enumerated() {
            if token.isEmpty { return "it has an empty token; write single dots between tokens and none at the ends" }
            if token == [rest], index < tokens.count - 1 {
                return "'>' is not the last token; write * for one token in the middle"
            }
            if index == 0, tokens.count > 1, Array(token) == Array("$SYS".utf8) { continue }
            if token.count == 1, token.first == one || token.first == rest { continue }
            if token.contains(where: { $0 == one || $0 == rest }) {
                return "'*' and '>' must be whole tokens; write nothing else between the dots"
            }
            if !token.allSatisfy(TopicName.allows) {
                return "it has a character that is not allowed; write tokens of A-Z a-z 0-9 _ - joined by dots"
            }
        }
        return nil
    }
}
