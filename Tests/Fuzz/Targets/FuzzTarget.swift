// The fuzz targets: each accepts any bytes, and reports violations. Replay runs them on the stored inputs, the program
// `fuzz` on those that libFuzzer generates.

import Bytes

struct FuzzTarget: Sendable {
    /// The name of the target, and of the folders with its corpus and its regressions.
    let name: String
    let run: @Sendable (UnsafeRawBufferPointer) -> Void

    static let all: [FuzzTarget] = [
        FuzzTarget(name: "frame", run: fuzzFrame),
        FuzzTarget(name: "metadata", run: fuzzMetadata),
        FuzzTarget(name: "rsocket", run: fuzzRSocket),
        FuzzTarget(name: "engine", run: fuzzEngine),
        FuzzTarget(name: "client-rsocket", run: fuzzClientRSocket),
        FuzzTarget(name: "http2", run: fuzzHTTP2),
        FuzzTarget(name: "http1", run: fuzzHTTP1),
        FuzzTarget(name: "client-grpc", run: fuzzClientGRPC),
        FuzzTarget(name: "protobuf", run: fuzzProtobuf),
        FuzzTarget(name: "grpc-frames", run: fuzzGRPCFrames),
        FuzzTarget(name: "route", run: fuzzRoute),
        FuzzTarget(name: "topic", run: fuzzTopic),
        FuzzTarget(name: "positions", run: fuzzPositions),
        FuzzTarget(name: "plain-request", run: fuzzPlainRequest),
        FuzzTarget(name: "stream-record", run: fuzzStreamRecord),
        FuzzTarget(name: "configuration", run: fuzzConfiguration),
        FuzzTarget(name: "flags", run: fuzzFlags),
        FuzzTarget(name: "credentials", run: fuzzCredentials),
        FuzzTarget(name: "jwt", run: fuzzJWT),
        FuzzTarget(name: "json", run: fuzzJSON),
        FuzzTarget(name: "nats", run: fuzzNATS),
        FuzzTarget(name: "upstream", run: fuzzUpstream),
    ]
}

/// Reports `what` unless `holds`.
func mustHold(_ holds: Bool, _ what: @autoclosure () -> String) {
    if !holds { report(what()) }
}

/// Splits an input. Beyond its end there are zeros and empty pieces.
struct FuzzInput {
    private(set) var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    var isEmpty: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 {
        guard let first = rest.first else { return 0 }
        rest = rest.slice(1..<rest.count)
        return first
    }

    /// 0 to `bound` - 1; `bound` is 1 to 256.
    mutating func number(below bound: Int) -> Int { Int(byte()) % bound }

    mutating func u16() -> Int { Int(byte()) << 8 | Int(byte()) }

    mutating func pick<T>(_ values: [T]) -> T { values[number(below: values.count)] }

    /// At most `count` bytes, fewer if the input ends.
    mutating func take(_ count: Int) -> UnsafeRawBufferPointer {
        let count = min(count, rest.count)
        defer { rest = rest.slice(count..<rest.count) }
        return rest.slice(0..<count)
    }

    /// A length of one byte, followed by bytes of that length.
    mutating func piece() -> UnsafeRawBufferPointer { take(Int(byte())) }

    /// The bytes up to `separator`, which is dropped, or to the end.
    mutating func part(before separator: UInt8) -> UnsafeRawBufferPointer {
        let end = rest.firstIndex(of: separator) ?? rest.count
        defer { rest = rest.slice(min(end + 1, rest.count)..<rest.count) }
        return rest.slice(0..<end)
    }
}

extension UnsafeRawBufferPointer {
    /// The bytes as text, with U+FFFD for invalid UTF-8.
    var asText: String { String(decoding: self, as: UTF8.self) }
}

/// Runs `body` with a copy of the bytes in memory of exactly their size, which is freed when it returns: the address
/// sanitizer detects reads beyond its end or after its lifetime.
func withCopy<R>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { memory.deallocate() }
    memory.copyMemory(from: bytes)
    let result = body(UnsafeRawBufferPointer(memory))
    memory.initializeMemory(as: UInt8.self, repeating: 0xA5)
    return result
}

func withBytes<R>(_ text: String, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    Array(text.utf8).withUnsafeBytes(body)
}
