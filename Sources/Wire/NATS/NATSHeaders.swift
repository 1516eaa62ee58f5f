// NATSHeaders: the headers of a received message, read in place; and NATSHeaderBlock, the headers of a message to send.
//
//     NATS/1.0[ STATUS[ DESCRIPTION]]\r\n
//     Name: value\r\n
//     \r\n

import Bytes

/// The headers of a message. The pointers are valid as long as those of the message.
///
/// Names are case-sensitive and may repeat. Spaces and tabs around a value do not belong to it. Lines without a name
/// are ignored, as by the official clients.
public struct NATSHeaders {
    /// Three digits, for messages that the server itself sends: 503 for "no responders", 404 for "no message"; nil for
    /// others.
    public private(set) var status: Int?
    /// The text after the status; usually empty.
    public private(set) var statusText: UnsafeRawBufferPointer
    /// The number of headers.
    public private(set) var count = 0
    /// The lines after the first.
    private var lines: UnsafeRawBufferPointer

    /// - Parameter block: the headers of a `NATSMessage`.
    /// - Throws: if the block is malformed or has more than `NATSLimits.maxHeaders` headers. The publisher is to blame,
    ///   and the connection continues.
    public init(_ block: UnsafeRawBufferPointer) throws(NATSError) { try self.init(block, isFinished: true) }

    /// Reads a block without the empty line at its end.
    /// - Throws: as for a whole block.
    package init(unfinished block: UnsafeRawBufferPointer) throws(NATSError) {
        try self.init(block, isFinished: false)
    }

    private init(_ block: UnsafeRawBufferPointer, isFinished: Bool) throws(NATSError) {
        lines = block
        let version: StaticString = "NATS/1.0"
        guard let first = NATSHeaders.line(&lines), first.count >= version.utf8CodeUnitCount,
            first.slice(0..<version.utf8CodeUnitCount).elementsEqual(
                UnsafeBufferPointer(start: version.utf8Start, count: version.utf8CodeUnitCount))
        else { throw .message("The headers of a message do not begin with NATS/1.0.") }
        let rest = first.slice(version.utf8CodeUnitCount..<first.count)
        guard rest.isEmpty || NATSParser.isSpace(rest[0]) else {
            throw .message("The headers of a message have a version other than NATS/1.0.")
        }
        let text = rest.trimmed(NATSParser.isSpace)
        statusText = .nothing
        if !text.isEmpty {
            guard text.count >= 3, let number = text.slice(0..<3).decimal,
                text.count == 3 || NATSParser.isSpace(text[3])
            else { throw .message("The headers of a message have a status that is not a number of three digits.") }
            status = Int(number)
            statusText = text.slice(3..<text.count).trimmed(NATSParser.isSpace)
        }
        var walked = lines
        while isFinished || !walked.isEmpty {
            guard let line = NATSHeaders.line(&walked) else {
                throw .message("The headers of a message have no empty line at their end.")
            }
            if line.isEmpty {
                guard isFinished, walked.isEmpty else {
                    throw .message("The headers of a message go on after an empty line.")
                }
                break
            }
            guard let colon = line.index(of: UInt8(ascii: ":")), line.index(of: 0x0D) == nil else {
                throw .message("The headers of a message have a line without a colon, or with a carriage return.")
            }
            if colon > 0 { count += 1 }
            guard count <= NATSLimits.maxHeaders else {
                throw .message("A message has more than \(NATSLimits.maxHeaders) headers.")
            }
        }
    }

    /// The first value of a header; nil if there is none.
    public subscript(name: StaticString) -> UnsafeRawBufferPointer? {
        var found: UnsafeRawBufferPointer?
        forEach { other, value in
            if found == nil, other.isEqual(to: name) { found = value }
        }
        return found
    }

    /// Calls `body` with the name and value of each header, in their order.
    public func forEach(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void) {
        var rest = lines
        while let line = NATSHeaders.line(&rest), let colon = line.index(of: UInt8(ascii: ":")) {
            guard colon > 0 else { continue }
            body(line.slice(0..<colon), line.slice(colon + 1..<line.count).trimmed(NATSParser.isSpace))
        }
    }

    /// Removes the first line, and returns it without its break.
    private static func line(_ bytes: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard let feed = bytes.index(of: 0x0A), feed > 0, bytes[feed - 1] == 0x0D else { return nil }
        defer { bytes = bytes.slice(feed + 1..<bytes.count) }
        return bytes.slice(0..<feed - 1)
    }
}

/// Headers of messages to send, encoded. Reused for many messages, it does not allocate.
public struct NATSHeaderBlock: Sendable {
    /// The block without the empty line at its end.
    private(set) var bytes: [UInt8]
    /// The number of headers.
    public private(set) var count = 0

    public init() { bytes = NATSHeaderBlock.first }

    private static let first = Array("NATS/1.0\r\n".utf8)

    /// The bytes that the block takes in a message.
    public var size: Int { bytes.count + 2 }

    /// Adds a header after the others.
    /// - Parameters:
    ///   - name: at least one visible ASCII character, no colon.
    ///   - value: anything without carriage returns, line feeds and NUL. Receivers drop spaces and tabs at its ends.
    /// - Throws: if name or value is invalid, or the block exceeds `NATSLimits.maxHeaderBlock` or
    ///   `NATSLimits.maxHeaders`. The block is then unchanged.
    public mutating func append(_ name: String, _ value: String) throws(NATSError) {
        guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }) else {
            throw .call(.invalid, "A header's name must consist of visible ASCII characters other than a colon.")
        }
        guard value.utf8.allSatisfy({ $0 != 0x0D && $0 != 0x0A && $0 != 0 }) else {
            throw .call(.invalid, "The value of the header \(name) must not contain a line break or NUL.")
        }
        guard count < NATSLimits.maxHeaders, size + name.utf8.count + value.utf8.count + 4 <= NATSLimits.maxHeaderBlock
        else {
            throw .call(
                .tooLarge,
                "A message has at most \(NATSLimits.maxHeaders) headers with \(NATSLimits.maxHeaderBlock) bytes.")
        }
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(UInt8(ascii: " "))
        bytes.append(contentsOf: value.utf8)
        bytes.append(0x0D)
        bytes.append(0x0A)
        count += 1
    }

    /// Removes all headers, and keeps the memory.
    public mutating func removeAll() {
        bytes.removeLast(bytes.count - NATSHeaderBlock.first.count)
        count = 0
    }
}
