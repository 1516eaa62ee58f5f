// Accept: chooses one of the two formats of a stream by content negotiation. RFC 9110, section 12.5.1.

/// The format in which messages are streamed.
public enum StreamFormat: Sendable, CaseIterable {
    case eventStream, jsonLines

    public var mime: String {
        switch self {
        case .eventStream: "text/event-stream"
        case .jsonLines: "application/x-ndjson"
        }
    }

    /// The format that `accept` prefers. If it prefers neither, the one that it names more specifically is chosen, and
    /// then the event stream. A missing or empty header accepts everything.
    ///
    /// - Parameter accept: the values of all Accept headers, joined by commas.
    /// - Throws: 406 if it accepts neither.
    public init(accept: String?) throws(Problem) {
        guard let accept, accept.utf8.contains(where: { !Field.isBlank($0) }) else {
            self = .eventStream
            return
        }
        var best: (format: StreamFormat, quality: Int, exactness: Int)?
        let ranges = Field.split(accept, at: UInt8(ascii: ",")).compactMap(MediaRange.init)
        for format in StreamFormat.allCases {
            // The most specific range that matches decides, whatever its quality.
            guard
                let range = ranges.filter({ $0.matches(format.mime) }).max(by: { $0.exactness < $1.exactness }),
                range.quality > 0
            else { continue }
            if let best, (best.quality, best.exactness) >= (range.quality, range.exactness) { continue }
            best = (format, range.quality, range.exactness)
        }
        guard let best else {
            throw Problem(
                .notAcceptable,
                "Messages are sent as text/event-stream or application/x-ndjson; accept one of them.")
        }
        self = best.format
    }
}

/// One member of Accept: `type/subtype;parameter=value;q=0.5`. Parameters other than `q` are ignored: the formats have
/// none.
private struct MediaRange {
    var type: String
    /// In thousandths.
    var quality = 1000
    /// 0 for `*/*`, 1 for `type/*`, 2 for `type/subtype`.
    var exactness: Int

    /// Nil if the text is not a media range; it then matches nothing.
    init?(_ text: Substring) {
        let parts = Field.split(text, at: UInt8(ascii: ";"))
        type = Field.trim(parts[0]).lowercased()
        let halves = type.split(separator: "/", omittingEmptySubsequences: false)
        guard halves.count == 2, !halves[0].isEmpty, !halves[1].isEmpty else { return nil }
        if halves[0] == "*", halves[1] != "*" { return nil }
        exactness = halves[0] == "*" ? 0 : halves[1] == "*" ? 1 : 2
        for parameter in parts.dropFirst() {
            let pair = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, Field.trim(pair[0]).lowercased() == "q" else { continue }
            guard let quality = MediaRange.quality(Field.trim(pair[1])) else { return nil }
            self.quality = quality
        }
    }

    func matches(_ mime: String) -> Bool {
        switch exactness {
        case 0: true
        case 1: mime.utf8.starts(with: type.utf8.dropLast())
        default: mime == type
        }
    }

    /// RFC 9110, section 12.4.2: 0 to 1 with at most three decimals; in thousandths.
    private static func quality(_ text: Substring) -> Int? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts[0] == "0" || parts[0] == "1" else { return nil }
        var value = parts[0] == "1" ? 1000 : 0
        if parts.count == 2, !parts[1].isEmpty {
            guard parts[1].utf8.count <= 3, let decimals = Decimal.parse(parts[1]) else { return nil }
            value += Int(decimals) * [100, 10, 1][parts[1].utf8.count - 1]
        }
        return value <= 1000 ? value : nil
    }
}

/// Helpers for header values.
enum Field {
    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func trim(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var range = 0..<bytes.count
        while let first = range.first, isBlank(bytes[first]) { range.removeFirst() }
        while let last = range.last, isBlank(bytes[last]) { range.removeLast() }
        return bytes.slice(range)
    }

    static func trim(_ text: Substring) -> Substring {
        var bytes = text.utf8
        while let first = bytes.first, isBlank(first) { bytes = bytes.dropFirst() }
        while let last = bytes.last, isBlank(last) { bytes = bytes.dropLast() }
        return Substring(bytes)
    }

    static func split(_ text: String, at separator: UInt8) -> [Substring] { split(text[...], at: separator) }

    /// Splits at separators outside quotation marks. RFC 9110, section 5.6.4.
    static func split(_ text: Substring, at separator: UInt8) -> [Substring] {
        var parts: [Substring] = []
        var start = text.startIndex
        var isQuoted = false
        var isEscaped = false
        for index in text.utf8.indices {
            let byte = text.utf8[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == separator, !isQuoted {
                parts.append(text[start..<index])
                start = text.utf8.index(after: index)
            }
        }
        parts.append(text[start...])
        return parts
    }
}
