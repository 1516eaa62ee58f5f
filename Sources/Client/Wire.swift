// Wire: the frames that a requester sends, and what it makes of those that arrive.

import Bytes

/// A frame that arrived, as far as a requester cares. The bytes are those of the frame.
enum Inbound {
    struct Payload {
        let follows: Bool
        let complete: Bool
        let next: Bool
        let metadata: UnsafeRawBufferPointer?
        let data: UnsafeRawBufferPointer
    }
    case payload(UInt32, Payload)
    case requestN(UInt32, UInt32)
    case cancel(UInt32)
    case error(UInt32, code: UInt32, text: UnsafeRawBufferPointer)
    case keepalive(respond: Bool, UnsafeRawBufferPointer)
    /// The broker wants something of us; `answered` tells whether it expects an answer.
    case request(UInt32, answered: Bool)
    case ignored
    case violation(String)
}

enum Interaction: UInt8 {
    case response = 4
    case fireAndForget = 5
    case stream = 6
    case channel = 7
}

enum Wire {
    static let compositeMIME = "message/x.rsocket.composite-metadata.v0"
    static let dataMIME = "application/octet-stream"
    private static let routing: UInt8 = 0x7e

    static func setup(keepalive: UInt32, lifetime: UInt32, to out: inout ByteBuffer) {
        frame(0, type: 1, flags: 0, to: &out) { out in
            out.append(bigEndian: UInt16(1))
            out.append(bigEndian: UInt16(0))
            out.append(bigEndian: keepalive & 0x7fff_ffff)
            out.append(bigEndian: lifetime & 0x7fff_ffff)
            for mime in [compositeMIME, dataMIME] {
                out.append(bigEndian: UInt8(mime.utf8.count))
                out.append(mime)
            }
        }
    }

    static func keepalive(respond: Bool, data: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        frame(0, type: 3, flags: respond ? 0x80 : 0, to: &out) { out in
            out.append(bigEndian: UInt64(0))
            out.append(data)
        }
    }

    static func requestN(_ id: UInt32, _ n: UInt32, to out: inout ByteBuffer) {
        frame(id, type: 8, flags: 0, to: &out) { $0.append(bigEndian: n) }
    }

    static func cancel(_ id: UInt32, to out: inout ByteBuffer) {
        frame(id, type: 9, flags: 0, to: &out) { _ in }
    }

    static func complete(_ id: UInt32, to out: inout ByteBuffer) {
        frame(id, type: 10, flags: 0x40, to: &out) { _ in }
    }

    static func error(_ id: UInt32, code: UInt32, _ text: String, to out: inout ByteBuffer) {
        frame(id, type: 11, flags: 0, to: &out) { out in
            out.append(bigEndian: code)
            out.append(text)
        }
    }

    /// An item of a channel: PAYLOAD with N, in fragments when it is large.
    static func payload(_ id: UInt32, _ data: UnsafeRawBufferPointer, _ limits: ClientLimits, to out: inout ByteBuffer) {
        var rest = data
        repeat {
            let part = min(rest.count, limits.fragment)
            let follows: UInt16 = part < rest.count ? 0x80 : 0
            frame(id, type: 10, flags: 0x20 | follows, to: &out) { $0.append(rest.slice(0..<part)) }
            rest = rest.slice(part..<rest.count)
        } while !rest.isEmpty
    }

    /// A request with its route; its data goes on in PAYLOAD fragments when it is large.
    static func request(
        _ kind: Interaction, _ id: StreamID, _ n: UInt32, _ route: Route, _ data: UnsafeRawBufferPointer,
        complete: Bool, _ limits: ClientLimits, to out: inout ByteBuffer
    ) throws(ClientError) {
        guard let tags = route.tags else {
            throw ClientError(
                .invalid, "'\(route.name)' with its options is too long: a route's tag holds \(Route.tagLimit) bytes.")
        }
        let routeLength = tags.reduce(0) { $0 + 1 + $1.utf8.count }
        var rest = data
        let part = min(rest.count, limits.fragment)
        let isWhole = part == rest.count
        let flags: UInt16 = 0x100 | (isWhole ? 0 : 0x80) | (complete && isWhole ? 0x40 : 0)
        frame(id.value, type: kind.rawValue, flags: flags, to: &out) { out in
            if kind == .stream || kind == .channel { out.append(bigEndian: n) }
            out.append(u24: 4 + routeLength)
            out.append(bigEndian: 0x80 | routing)
            out.append(u24: routeLength)
            for tag in tags {
                out.append(bigEndian: UInt8(tag.utf8.count))
                out.append(tag)
            }
            out.append(rest.slice(0..<part))
        }
        rest = rest.slice(part..<rest.count)
        while !rest.isEmpty {
            let part = min(rest.count, limits.fragment)
            let last: UInt16 = part == rest.count ? (complete ? 0x40 : 0) : 0x80
            frame(id.value, type: 10, flags: 0x20 | last, to: &out) { $0.append(rest.slice(0..<part)) }
            rest = rest.slice(part..<rest.count)
        }
    }

    /// Appends a frame with its length, which is known when the body is written.
    private static func frame(
        _ id: UInt32, type: UInt8, flags: UInt16, to out: inout ByteBuffer, _ body: (inout ByteBuffer) -> Void
    ) {
        let start = out.count
        out.append(u24: 0)
        out.append(bigEndian: id)
        out.append(bigEndian: UInt16(type) << 10 | flags)
        body(&out)
        let length = out.count - start - 3
        out.withMutableReadable { bytes in
            bytes[start] = UInt8(length >> 16)
            bytes[start + 1] = UInt8(length >> 8 & 0xff)
            bytes[start + 2] = UInt8(length & 0xff)
        }
    }

    /// Reads one frame, without its length.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> Inbound {
        guard bytes.count >= 6 else { return .violation("a frame of \(bytes.count) bytes is shorter than a header") }
        let id = bytes.bigEndian(at: 0, as: UInt32.self) & 0x7fff_ffff
        let head = bytes.bigEndian(at: 4, as: UInt16.self)
        let body = bytes.slice(6..<bytes.count)
        let type = head >> 10
        switch type {
        case 3:
            guard body.count >= 8 else { return .violation("a KEEPALIVE without a position") }
            return .keepalive(respond: head & 0x80 != 0, body.slice(8..<body.count))
        case 4, 5, 6, 7: return .request(id, answered: type != 5)
        case 8:
            guard body.count >= 4 else { return .violation("a REQUEST_N without a number") }
            return .requestN(id, body.bigEndian(at: 0, as: UInt32.self) & 0x7fff_ffff)
        case 9: return .cancel(id)
        case 10:
            var data = body
            var metadata: UnsafeRawBufferPointer?
            if head & 0x100 != 0 {
                guard body.count >= 3, body.count - 3 >= body.u24(at: 0) else {
                    return .violation("metadata longer than its frame")
                }
                let length = body.u24(at: 0)
                metadata = body.slice(3..<3 + length)
                data = body.slice(3 + length..<body.count)
            }
            let payload = Inbound.Payload(
                follows: head & 0x80 != 0, complete: head & 0x40 != 0 && head & 0x80 == 0, next: head & 0x20 != 0,
                metadata: metadata, data: data)
            return .payload(id, payload)
        case 11:
            guard body.count >= 4 else { return .violation("an ERROR without a code") }
            return .error(id, code: body.bigEndian(at: 0, as: UInt32.self), text: body.slice(4..<body.count))
        case 2, 12: return .ignored
        default:
            return head & 0x200 != 0 ? .ignored : .violation("an unexpected frame of type \(type)")
        }
    }
}
