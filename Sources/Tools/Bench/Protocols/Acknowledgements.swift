// Acknowledgements: counts the responses to acknowledged publishes, in RSocket frames, NATS lines and Redis replies.

import RSocket

struct AcknowledgementReader {
    enum Dialect { case rsocket, nats, redis }

    private let dialect: Dialect
    private var rest: [UInt8] = []

    init(_ dialect: Dialect) { self.dialect = dialect }

    /// Parses bytes from the socket; returns how many acknowledgements they complete.
    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(BenchError) -> Int {
        rest.append(contentsOf: bytes)
        var offset = 0
        var count = 0
        while let (end, isAnswer) = try next(from: offset) {
            if isAnswer { count += 1 }
            offset = end
        }
        rest.removeFirst(offset)
        return count
    }

    /// The end of the unit that begins at `offset`, and whether it is an acknowledgement; nil if it is incomplete.
    private func next(from offset: Int) throws(BenchError) -> (end: Int, isAnswer: Bool)? {
        switch dialect {
        case .rsocket: return try frame(from: offset)
        case .nats: return try line(from: offset)
        case .redis: return try reply(from: offset)
        }
    }

    private func frame(from offset: Int) throws(BenchError) -> (end: Int, isAnswer: Bool)? {
        guard rest.count - offset >= 9 else { return nil }
        let end = offset + 3 + CreditReader.number(rest, at: offset, bytes: 3)
        guard rest.count >= end else { return nil }
        let type = rest[offset + 7] >> 2
        if type == FrameType.error.rawValue {
            let text = String(decoding: rest[min(end, offset + 13)..<end], as: UTF8.self)
            throw BenchError("a publish was refused: \(text)")
        }
        return (end, type == FrameType.payload.rawValue)
    }

    /// `MSG subject sid size`, followed by `size` bytes; everything else is a single line.
    private func line(from offset: Int) throws(BenchError) -> (end: Int, isAnswer: Bool)? {
        guard let end = endOfLine(from: offset) else { return nil }
        guard rest[offset] == UInt8(ascii: "M") else {
            if rest[offset] == UInt8(ascii: "-") {
                throw BenchError("a publish was refused: \(String(decoding: rest[offset..<end], as: UTF8.self))")
            }
            return (end, false)
        }
        var size = 0
        var scale = 1
        var digit = end - 3
        while digit > offset, rest[digit] != UInt8(ascii: " ") {
            size += Int(rest[digit] &- UInt8(ascii: "0")) * scale
            scale *= 10
            digit -= 1
        }
        let whole = end + size + 2
        guard rest.count >= whole else { return nil }
        // {"stream":"BENCH", "seq":1} or {"error":{…
        if size > 2, rest[end + 2] == UInt8(ascii: "e") {
            throw BenchError("a publish was refused: \(String(decoding: rest[end..<whole], as: UTF8.self))")
        }
        return (whole, true)
    }

    /// `$size`, followed by `size` bytes, or an error in a single line.
    private func reply(from offset: Int) throws(BenchError) -> (end: Int, isAnswer: Bool)? {
        guard let end = endOfLine(from: offset) else { return nil }
        guard rest[offset] == UInt8(ascii: "$") else {
            throw BenchError("a publish was refused: \(String(decoding: rest[offset..<end], as: UTF8.self))")
        }
        let size = rest[(offset + 1)..<(end - 2)].reduce(0) { $0 * 10 + Int($1 &- UInt8(ascii: "0")) }
        return rest.count >= end + size + 2 ? (end + size + 2, true) : nil
    }

    private func endOfLine(from offset: Int) -> Int? {
        rest[offset...].firstIndex(of: 10).map { $0 + 1 }
    }
}
