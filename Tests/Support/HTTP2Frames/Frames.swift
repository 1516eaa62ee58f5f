// The client's side of HTTP/2 for tests: frames are written and parsed by hand.

import Bytes
import CNGHTTP2

public enum Type {
    public static let data: UInt8 = 0
    public static let headers: UInt8 = 1
    public static let priority: UInt8 = 2
    public static let reset: UInt8 = 3
    public static let settings: UInt8 = 4
    public static let push: UInt8 = 5
    public static let ping: UInt8 = 6
    public static let goAway: UInt8 = 7
    public static let windowUpdate: UInt8 = 8
    public static let continuation: UInt8 = 9
}

public enum Flag {
    public static let end: UInt8 = 1
    public static let ack: UInt8 = 1
    public static let endHeaders: UInt8 = 4
    public static let padded: UInt8 = 8
    public static let priority: UInt8 = 0x20
}

public let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

public func u32(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

public func frame(
    _ type: UInt8, _ flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = [], length: Int? = nil
) -> [UInt8] {
    let length = UInt32(length ?? payload.count)
    return u32(length).dropFirst() + [type, flags] + u32(stream) + payload
}

public func data(_ stream: UInt32, _ payload: [UInt8], end: Bool = false) -> [UInt8] {
    frame(Type.data, end ? Flag.end : 0, stream: stream, payload)
}

public func data(_ stream: UInt32, _ text: String, end: Bool = false) -> [UInt8] {
    data(stream, Array(text.utf8), end: end)
}

public func settings(_ values: (UInt16, UInt32)...) -> [UInt8] {
    frame(
        Type.settings, 0,
        values.flatMap { [UInt8(truncatingIfNeeded: $0.0 >> 8), UInt8(truncatingIfNeeded: $0.0)] + u32($0.1) })
}

public func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> [UInt8] {
    frame(Type.windowUpdate, stream: stream, u32(increment))
}

public func reset(_ stream: UInt32, _ code: UInt32 = 8) -> [UInt8] { frame(Type.reset, stream: stream, u32(code)) }

public func ping(_ number: UInt8 = 0, ack: Bool = false) -> [UInt8] {
    frame(Type.ping, ack ? Flag.ack : 0, [UInt8](repeating: number, count: 8))
}

/// A field as an HPACK literal without indexing and without Huffman coding (RFC 7541, 6.2.2).
public func literal(_ name: String, _ value: String) -> [UInt8] {
    [0] + integer(name.utf8.count) + name.utf8 + integer(value.utf8.count) + value.utf8
}

/// An integer with a prefix of 7 bits (RFC 7541, 5.1).
private func integer(_ value: Int) -> [UInt8] {
    guard value >= 127 else { return [UInt8(value)] }
    var bytes: [UInt8] = [127]
    var rest = value - 127
    while rest >= 128 {
        bytes.append(UInt8(rest % 128 | 128))
        rest /= 128
    }
    return bytes + [UInt8(rest)]
}

public func block(_ fields: [(String, String)]) -> [UInt8] { fields.flatMap { literal($0.0, $0.1) } }

public let getFields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")]
public let postFields = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/x")]

public func headers(_ stream: UInt32, _ fields: [(String, String)], end: Bool = false) -> [UInt8] {
    frame(Type.headers, Flag.endHeaders | (end ? Flag.end : 0), stream: stream, block(fields))
}

public func get(_ stream: UInt32, _ more: [(String, String)] = []) -> [UInt8] {
    headers(stream, getFields + more, end: true)
}

public func post(_ stream: UInt32, _ more: [(String, String)] = []) -> [UInt8] { headers(stream, postFields + more) }

/// A frame written by the server, described by lines such as `DATA 1 5 END`.
public struct Received: CustomStringConvertible {
    public var type: UInt8
    public var flags: UInt8
    public var stream: UInt32
    public var payload: [UInt8]
    /// The fields of a HEADERS frame.
    public var fields: [String: String] = [:]

    public var isEnd: Bool { (type == Type.data || type == Type.headers) && flags & Flag.end != 0 }
    public var code: UInt32 { payload.withUnsafeBytes { $0.bigEndian(at: type == Type.goAway ? 4 : 0) } }
    public var increment: Int { Int(code) }
    public var text: String {
        String(decoding: type == Type.goAway ? payload.dropFirst(8) : payload[...], as: UTF8.self)
    }

    public var description: String {
        let end = isEnd ? " END" : ""
        switch type {
        case Type.data: return "DATA \(stream) \(payload.count)\(end)"
        case Type.headers:
            let list = fields.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
            return "HEADERS \(stream) \(list)\(end)"
        case Type.reset: return "RST_STREAM \(stream) \(code)"
        case Type.settings: return flags & Flag.ack != 0 ? "SETTINGS ACK" : "SETTINGS"
        case Type.ping: return flags & Flag.ack != 0 ? "PING ACK" : "PING"
        case Type.goAway: return "GOAWAY \(code)"
        case Type.windowUpdate: return "WINDOW_UPDATE \(stream) \(code)"
        default: return "frame \(type)"
        }
    }
}

/// Parses what the server writes; keeps the state of its header compression.
public final class FrameReader {
    private var bytes: [UInt8] = []
    private var inflater: OpaquePointer?

    public init() { nghttp2_hd_inflate_new(&inflater) }
    deinit { nghttp2_hd_inflate_del(inflater) }

    public var hasPart: Bool { !bytes.isEmpty }

    public func read(_ more: [UInt8]) -> [Received] {
        bytes += more
        var frames: [Received] = []
        var start = 0
        while bytes.count - start >= 9 {
            let length = bytes.withUnsafeBytes { $0.u24(at: start) }
            guard bytes.count - start >= 9 + length else { break }
            let stream: UInt32 = bytes.withUnsafeBytes { $0.bigEndian(at: start + 5) }
            var frame = Received(
                type: bytes[start + 3], flags: bytes[start + 4], stream: stream,
                payload: Array(bytes[start + 9..<start + 9 + length]))
            if frame.type == Type.headers { frame.fields = inflate(frame.payload) }
            frames.append(frame)
            start += 9 + length
        }
        bytes.removeFirst(start)
        return frames
    }

    private func inflate(_ block: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var position = 0
        while true {
            var field = nghttp2_nv()
            var flags: Int32 = 0
            let used = block.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(
                    inflater, &field, &flags, $0.baseAddress.map { $0 + position }, block.count - position, 1)
            }
            guard used >= 0 else { return ["error": "\(used)"] }
            position += used
            if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                let name = UnsafeBufferPointer(start: field.name, count: field.namelen)
                let value = UnsafeBufferPointer(start: field.value, count: field.valuelen)
                fields[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
            }
            if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
        }
        nghttp2_hd_inflate_end_headers(inflater)
        return fields
    }
}
