// ServerHeaders: what the server adds to a message of a stream, after the headers of the publisher:
//
//     Nats-Stream: FB_1
//     Nats-Subject: fb.p.-.topic
//     Nats-Sequence: 1
//     Nats-Time-Stamp: 2026-11-27T15:54:24.177327246Z
//
// Publishers can send headers with these names, and malformed blocks, which the server stores and continues. Therefore
// the lines are read from the end, and nothing is required of those before. A block without a line break continues in
// the server's first line, so the first name is only compared at its end.

import Bytes
import NATS

/// In place.
struct ServerHeaders {
    /// The publisher's part of the block: what precedes the server's headers.
    let published: UnsafeRawBufferPointer
    let stream: UnsafeRawBufferPointer
    let subject: UnsafeRawBufferPointer
    let sequence: UInt64
    let time: Int64

    private static let first: StaticString = "Nats-Stream: "

    /// Nil if the block has not all of them, or a value is invalid.
    init?(_ block: UnsafeRawBufferPointer) {
        var subject: UnsafeRawBufferPointer?
        var sequence: UnsafeRawBufferPointer?
        var time: UnsafeRawBufferPointer?
        var rest = block
        while !rest.isEmpty {
            let line = ServerHeaders.lastLine(&rest)
            if time == nil, let value = line.value(of: "Nats-Time-Stamp: ") {
                time = value
            } else if sequence == nil, let value = line.value(of: "Nats-Sequence: ") {
                sequence = value
            } else if subject == nil, let value = line.value(of: "Nats-Subject: ") {
                subject = value
            } else if let stream = line.value(afterLast: ServerHeaders.first) {
                guard let subject, !subject.isEmpty, !stream.isEmpty, let sequence = sequence?.decimal,
                    sequence > 0, sequence <= Int64.max, let time = time.flatMap(ServerTime.parse)
                else { return nil }
                let added = ServerHeaders.first.utf8CodeUnitCount + stream.count
                published = block.slice(0..<rest.count + line.count - added)
                self.stream = stream
                self.subject = subject
                self.sequence = sequence
                self.time = time
                return
            }
        }
        return nil
    }

    /// Removes the last line, and returns it without its break.
    private static func lastLine(_ bytes: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var end = bytes.count
        if bytes[end - 1] == 0x0A { end -= 1 }
        if end > 0, bytes[end - 1] == 0x0D { end -= 1 }
        let start = lastFeed(bytes.slice(0..<end)).map { $0 + 1 } ?? 0
        defer { bytes = bytes.slice(0..<start) }
        return bytes.slice(start..<end)
    }

    /// Returns the index of the last line feed. `memchr` is much faster than a loop, but only searches forward, so it
    /// searches parts of about one or two lines, beginning with the last part.
    private static func lastFeed(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var end = bytes.count
        while end > 0 {
            let start = max(0, end - 64)
            let part = bytes.slice(0..<end)
            var found: Int?
            while let feed = part.index(of: 0x0A, from: found.map { $0 + 1 } ?? start) { found = feed }
            if let found { return found }
            end = start
        }
        return nil
    }
}

extension UnsafeRawBufferPointer {
    /// What follows `name` at the beginning.
    fileprivate func value(of name: StaticString) -> UnsafeRawBufferPointer? {
        has(name, at: 0) ? slice(name.utf8CodeUnitCount..<count) : nil
    }

    /// What follows `name` where it occurs last. A stream's name has no space, so its value does not contain `name`.
    fileprivate func value(afterLast name: StaticString) -> UnsafeRawBufferPointer? {
        var start = count
        while start > 0, self[start - 1] != UInt8(ascii: " ") { start -= 1 }
        let offset = start - name.utf8CodeUnitCount
        return offset >= 0 && has(name, at: offset) ? slice(start..<count) : nil
    }

    private func has(_ name: StaticString, at offset: Int) -> Bool {
        let end = offset + name.utf8CodeUnitCount
        return end <= count && slice(offset..<end).isEqual(to: name)
    }
}
