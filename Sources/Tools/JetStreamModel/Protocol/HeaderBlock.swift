// HeaderBlock: headers of messages, read and extended as nats-server does it: names are case-sensitive, and what is not
// understood stays.

enum HeaderBlock {
    static let first = Array("NATS/1.0\r\n".utf8)

    /// The first value of a header, without the spaces before it; nil if there is none.
    static func value(_ name: String, in block: [UInt8]?) -> String? {
        guard let block else { return nil }
        let line = [0x0D, 0x0A] + Array(name.utf8) + [UInt8(ascii: ":")]
        guard let start = index(of: line, in: block, from: 0) else { return nil }
        let begin = start + line.count
        let end = index(of: [0x0D, 0x0A], in: block, from: begin) ?? block.count
        return String(decoding: block[begin..<end].drop { $0 == 0x20 }, as: UTF8.self)
    }

    /// The block with headers added after the others.
    static func adding(_ headers: [(String, String)], to block: [UInt8]?) -> [UInt8] {
        var bytes = block.flatMap { $0.count > 2 ? Array($0.dropLast(2)) : nil } ?? first
        for (name, value) in headers { bytes += "\(name): \(value)\r\n".utf8 }
        return bytes + [0x0D, 0x0A]
    }

    /// A block with a status, such as "404 Message Not Found".
    static func status(_ status: String, _ headers: [(String, String)] = []) -> [UInt8] {
        var bytes = Array("NATS/1.0 \(status)\r\n".utf8)
        for (name, value) in headers { bytes += "\(name): \(value)\r\n".utf8 }
        return bytes + [0x0D, 0x0A]
    }

    private static func index(of pattern: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        guard start >= 0, bytes.count - start >= pattern.count else { return nil }
        return (start...bytes.count - pattern.count).first { bytes[$0..<$0 + pattern.count].elementsEqual(pattern) }
    }
}
