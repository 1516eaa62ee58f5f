// What the tests of NATS share: operations and events as lines of text, and bytes in pieces.

import Bytes
import Testing

@testable import NATS

func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

func withRaw<R>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try Array(text.utf8).withUnsafeBytes { try body($0) }
}

func written(_ body: (inout ByteBuffer) throws -> Void) rethrows -> String {
    var out = ByteBuffer()
    try body(&out)
    return text(out.readable)
}

func describe(_ message: NATSMessage) -> String {
    let reply = message.reply.map { " reply=\(text($0))" } ?? ""
    let headers = message.headers.map { " headers=\(text($0))" } ?? ""
    return "message \(text(message.subject)) \(message.subscription)\(reply)\(headers) payload=\(text(message.payload))"
}

func describe(_ operation: NATSOperation) -> String {
    switch operation {
    case .info(let json): "info \(text(json))"
    case .message(let message): describe(message)
    case .ping: "ping"
    case .pong: "pong"
    case .ok: "ok"
    case .error(let what): "error \(text(what))"
    }
}

/// What a parser makes of pieces, each in memory of its own that is overwritten after its use.
func parsed(_ pieces: [ArraySlice<UInt8>], limits: NATSLimits = NATSLimits()) -> [String] {
    var parser = NATSParser(limits: limits)
    var lines: [String] = []
    for piece in pieces {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: piece.count, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: piece)
        parser.feed(UnsafeRawBufferPointer(memory))
        do {
            while let operation = try parser.next() { lines.append(describe(operation)) }
        } catch {
            lines.append("\(error)")
            #expect(error.endsConnection)
            return lines
        }
        memory.initializeMemory(as: UInt8.self, repeating: 0xA5)
    }
    return lines
}

func parsed(_ text: String, limits: NATSLimits = NATSLimits()) -> [String] {
    parsed([Array(text.utf8)[...]], limits: limits)
}
