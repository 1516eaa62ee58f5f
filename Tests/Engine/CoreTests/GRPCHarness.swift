// GRPCHarness: a gRPC client of the engines under test. Its frames are written and parsed by hand; header blocks are
// decompressed by nghttp2.

import Bytes
import CNGHTTP2
import HTTP2

@testable import Core

final class GRPCClient {
    let client: TestClient
    /// Complete messages received, by stream.
    private(set) var messages: [UInt32: [[UInt8]]] = [:]
    /// Status and text, by stream, once the call has ended.
    private(set) var ended: [UInt32: (status: String, message: String)] = [:]
    /// Streams that the broker reset.
    private(set) var resets: [UInt32] = []
    private var partial: [UInt32: [UInt8]] = [:]
    private var inflater: OpaquePointer?
    private var nextStream: UInt32 = 1

    /// - Parameter window: the initial window of the client's streams, in bytes.
    init(_ broker: TestBroker, _ shard: Int = 0, window: UInt32 = 1 << 20) {
        nghttp2_hd_inflate_new(&inflater)
        client = TestClient(broker, shard, wireProtocol: .http)
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        // SETTINGS_INITIAL_WINDOW_SIZE; the connection's window is practically unlimited.
        send(preface + frame(4, 0, 0, [0, 4] + bytes(window)) + frame(4, 1, 0, []) + frame(8, 0, 0, bytes(1 << 30)))
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    func send(_ bytes: [UInt8]) {
        client.send { buffer in bytes.withUnsafeBytes { buffer.append($0) } }
    }

    /// Begins a call, with or without a message; returns its stream.
    @discardableResult
    func call(
        _ method: GRPCMethod, _ message: [UInt8]? = [], end: Bool = true, timeout: String? = nil,
        authorization: String? = nil
    ) -> UInt32 {
        let stream = nextStream
        nextStream += 2
        let fields =
            [
                (":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", method.path),
                ("content-type", "application/grpc"), ("te", "trailers"),
            ] + (timeout.map { [("grpc-timeout", $0)] } ?? [])
            + (authorization.map { [("authorization", $0)] } ?? [])
        var block: [UInt8] = []
        for (name, value) in fields {
            // A literal without indexing and without Huffman coding (RFC 7541, 6.2.2).
            block += [0, UInt8(name.utf8.count)]
            block += name.utf8
            block.append(UInt8(value.utf8.count))
            block += value.utf8
        }
        var sent = frame(1, 4, stream, block)
        if let message { sent += data(stream, message, end: end) }
        send(sent)
        return stream
    }

    func data(_ stream: UInt32, _ message: [UInt8], end: Bool = false) -> [UInt8] {
        frame(0, end ? 1 : 0, stream, [0] + bytes(UInt32(message.count)) + message)
    }

    func halfClose(_ stream: UInt32) { send(frame(0, 1, stream, [])) }

    func openWindow(_ stream: UInt32, _ count: UInt32) { send(frame(8, 0, stream, bytes(count))) }

    func reset(_ stream: UInt32) { send(frame(3, 0, stream, bytes(8))) }

    /// Reads what has arrived into `messages` and `ended`.
    func receive() {
        while client.bytes.count >= 9 {
            let length = client.bytes.readable.u24(at: 0)
            guard client.bytes.count >= 9 + length else { return }
            let head = client.bytes.readable
            let (type, flags) = (head[3], head[4])
            let stream: UInt32 = head.bigEndian(at: 5)
            take(type, isEnd: flags & 1 != 0, stream, Array(head[9..<9 + length]))
            client.bytes.consume(9 + length)
        }
    }

    /// The response of a call that has ended with one message, or its status.
    func answer(_ stream: UInt32) -> (status: String, text: String, message: [UInt8]?) {
        receive()
        let end = ended[stream]
        return (end?.status ?? "none", end?.message ?? "", messages[stream]?.first)
    }

    private func take(_ type: UInt8, isEnd: Bool, _ stream: UInt32, _ payload: [UInt8]) {
        switch type {
        case 0:
            partial[stream, default: []] += payload
            while let bytes = partial[stream], bytes.count >= 5 {
                let count = Int(bytes.withUnsafeBytes { $0.bigEndian(at: 1, as: UInt32.self) })
                guard bytes.count >= 5 + count else { return }
                messages[stream, default: []].append(Array(bytes[5..<5 + count]))
                partial[stream]!.removeFirst(5 + count)
            }
        case 1:
            let fields = inflate(payload)
            if isEnd {
                ended[stream] = (
                    fields["grpc-status"] ?? "none", GRPCMessageText.decode(fields["grpc-message"] ?? "")
                )
            }
        case 3: resets.append(stream)
        default: break
        }
    }

    private func inflate(_ block: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var position = 0
        var flags: Int32 = 0
        while flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) == 0 {
            var field = nghttp2_nv()
            let used = block.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(
                    inflater, &field, &flags, $0.baseAddress.map { $0 + position }, block.count - position, 1)
            }
            precondition(used >= 0, "The header block is invalid.")
            position += used
            guard flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 else { continue }
            let name = UnsafeBufferPointer(start: field.name, count: field.namelen)
            let value = UnsafeBufferPointer(start: field.value, count: field.valuelen)
            fields[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
        nghttp2_hd_inflate_end_headers(inflater)
        return fields
    }

    private func bytes(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

    private func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
        bytes(UInt32(payload.count)).dropFirst() + [type, flags] + bytes(stream) + payload
    }
}

/// A protobuf text field, of at most 2¹⁴−1 bytes.
func field(_ number: UInt8, _ text: String) -> [UInt8] {
    let count = text.utf8.count
    let length = count < 128 ? [UInt8(count)] : [UInt8(count & 127 | 128), UInt8(count >> 7)]
    return [number << 3 | 2] + length + text.utf8
}

/// A message's fields by number: text, or numbers in decimal.
func fields(_ message: [UInt8]?) -> [UInt32: String] {
    guard let message else { return [:] }
    return message.withUnsafeBytes { bytes in
        var found: [UInt32: String] = [:]
        var reader = ProtobufReader(bytes)
        while let field = try? reader.next() {
            switch field.value {
            case .varint(let value): found[field.number] = String(value)
            case .bytes(let text): found[field.number] = text.text
            default: break
            }
        }
        return found
    }
}
