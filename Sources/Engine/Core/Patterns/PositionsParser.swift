// PositionsParser: the positions of a subscription to a pattern as JSON: {"orders.eu": ["6616333571386961933", 42], …}.
// Text that is not a position is rejected without a document being made, whatever its length or depth.

import Bytes
import ForebayWire
import JSONParsing

extension PatternPositions {
    /// Parses the data of a request; without any there are no positions.
    /// - Parameter most: topics that may have a position.
    static func parse(_ data: UnsafeRawBufferPointer, most: Int) throws(Refusal) -> [ResumePosition] {
        guard !data.isEmpty else { return [] }
        var parser = PositionsParser(bytes: data)
        return try parser.positions(most: most)
    }
}

extension ShardPart {
    /// Parses the positions in the data of a request, which counts as work.
    func parsePositions(_ data: UnsafeRawBufferPointer) throws(Refusal) -> [ResumePosition] {
        work.spent += data.count / Work.positionBytesPerUnit
        return try PatternPositions.parse(data, most: limits.matches)
    }
}

private struct PositionsParser {
    let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func positions(most: Int) throws(Refusal) -> [ResumePosition] {
        var positions: [ResumePosition] = []
        try expect(UInt8(ascii: "{"))
        if take(UInt8(ascii: "}")) {
            try expectEnd()
            return positions
        }
        repeat {
            guard positions.count < most else { throw PatternPositions.tooMany(most) }
            positions.append(try position())
        } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "}"))
        try expectEnd()
        return positions
    }

    private mutating func position() throws(Refusal) -> ResumePosition {
        let topic = try string()
        guard topic.utf8.count <= TopicName.longest else {
            throw .invalid(
                "The topic of a position has \(topic.utf8.count) bytes; names have at most \(TopicName.longest).")
        }
        try expect(UInt8(ascii: ":"))
        try expect(UInt8(ascii: "["))
        let first = try scalar()
        guard first.isString, let epoch = PositionsParser.number(first.text) else {
            throw .invalid(
                "The epoch of the position in '\(topic)' is not a string with a decimal "
                    + "number; send the one that came with the topic's last message.")
        }
        try expect(UInt8(ascii: ","))
        let second = try scalar()
        guard !second.isString, !second.text.hasPrefix("0"), let sequence = PositionsParser.number(second.text) else {
            throw .invalid(
                "The sequence of the position in '\(topic)' is not a number from 1; send "
                    + "that of the topic's last message plus 1.")
        }
        try expect(UInt8(ascii: "]"))
        return ResumePosition(topic: topic, epoch: epoch, sequence: sequence)
    }

    /// A number from 1 in decimal digits.
    private static func number(_ text: String) -> UInt64? {
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return UInt64(text).flatMap { $0 > 0 ? $0 : nil }
    }

    // The parts of JSON, after blanks

    /// The next byte that is not blank.
    private var next: UInt8? {
        mutating get {
            while index < bytes.count, PositionsParser.isBlank(bytes[index]) { index += 1 }
            return index < bytes.count ? bytes[index] : nil
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r")
            || byte == UInt8(ascii: "\t")
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ byte: UInt8) throws(Refusal) {
        guard take(byte) else { throw PositionsParser.malformed }
    }

    private mutating func expectEnd() throws(Refusal) {
        guard next == nil else { throw PositionsParser.malformed }
    }

    /// A string, or a number or another word without quotes.
    private mutating func scalar() throws(Refusal) -> (text: String, isString: Bool) {
        if next == UInt8(ascii: "\"") { return (try string(), true) }
        let start = index
        while index < bytes.count, PositionsParser.isInWord(bytes[index]) { index += 1 }
        guard index > start else { throw PositionsParser.malformed }
        return (String(decoding: bytes.slice(start..<index), as: UTF8.self), false)
    }

    private static func isInWord(_ byte: UInt8) -> Bool {
        TopicName.allows(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: ".")
    }

    private mutating func string() throws(Refusal) -> String {
        try expect(UInt8(ascii: "\""))
        let start = index
        var hasEscapes = false
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            let isEscape = bytes[index] == UInt8(ascii: "\\")
            hasEscapes = hasEscapes || isEscape
            guard bytes[index] >= 0x20 else { throw PositionsParser.malformed }
            index += isEscape ? 2 : 1
        }
        guard index < bytes.count else { throw PositionsParser.malformed }
        index += 1
        let content = bytes.slice(start..<index - 1)
        let text = hasEscapes ? PositionsParser.unescaped(content) : String(validating: content, as: UTF8.self)
        guard let text else { throw PositionsParser.malformed }
        return text
    }

    /// The text of a string with escapes, which names of topics do not need.
    private static func unescaped(_ content: UnsafeRawBufferPointer) -> String? {
        var document = ByteBuffer()
        document.append("{\"\":\"")
        document.append(content)
        document.append("\"}")
        return JSONDocument(document.readable)?.root[""]?.string
    }

    private static var malformed: Refusal {
        .invalid(
            "The positions are not a JSON object with a member \"TOPIC\": [\"EPOCH\", SEQUENCE] for each topic; send "
                + "such an object, or no data.")
    }
}
