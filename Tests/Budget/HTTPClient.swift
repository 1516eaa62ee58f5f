// HTTPClient: what HTTP/2 clients send, as bytes: a gRPC subscription, and POSTs that publish. Their header sections
// are compressed like those of real clients: later requests refer to the fields of the first.

import HTTP2Frames

enum HTTPClient {
    /// The start of a connection whose server never waits for a window.
    static let opening =
        preface + settings((4, 0x7fff_ffff)) + windowUpdate(0, 0x7fff_ffff - 65_535)

    /// A Subscribe call with unlimited credit; with `isBlock` nothing is dropped.
    static func subscribe(_ topic: String, stream: UInt32 = 1, isBlock: Bool = true) -> [UInt8] {
        let head = [
            (":method", "POST"), (":scheme", "http"), (":path", "/forebay.v1.PubSub/Subscribe"),
            (":authority", "127.0.0.1"), ("content-type", "application/grpc"), ("te", "trailers"),
        ]
        // topic, request_n, buffer, overflow = BLOCK.
        let block = isBlock ? Proto.field(7, 1_000_000) + Proto.field(8, 5) : []
        let open = Proto.field(1, topic) + Proto.field(2, 0x7fff_ffff) + block
        let message = Proto.field(1, open)
        return headers(stream, head) + data(stream, framed(message))
    }

    /// A publish by POST.
    static func post(stream: UInt32, topic: String, payload: [UInt8]) -> [UInt8] {
        frame(Type.headers, Flag.endHeaders, stream: stream, stream == 1 ? first(topic) : later)
            + data(stream, payload, end: true)
    }

    /// Literals with indexing (RFC 7541, 6.2.1).
    private static func first(_ topic: String) -> [UInt8] {
        let path = "/v1/topics/\(topic)/messages"
        return [0x83, 0x86, 0x44] + text(path) + [0x41] + text("127.0.0.1:7691") + [0x7a] + text("budget")
    }

    /// `:method: POST`, `:scheme: http`, and the entries that `first` added to the table.
    private static let later: [UInt8] = [0x83, 0x86, 0x80 | 64, 0x80 | 63, 0x80 | 62]

    private static func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

    /// The size in bytes of a response's entry for a message with a current timestamp.
    static func entry(sequence: UInt64, payload: Int) -> Int {
        let body =
            Proto.field(1, sequence).count + 1 + Proto.varint(UInt64(payload)).count + payload + 1 + 9
        return 1 + Proto.varint(UInt64(body)).count + body
    }

    /// An upper bound for the rest of a response, including frame headers.
    static let responseOverhead = 128
}
