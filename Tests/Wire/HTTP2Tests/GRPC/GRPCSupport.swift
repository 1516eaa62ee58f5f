// What the gRPC tests share: bytes in and out.

import Bytes
import Testing

@testable import HTTP2

/// The bytes of hexadecimal digits; spaces are skipped.
func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { $0.isHexDigit }.map { UInt8($0.hexDigitValue!) }
    precondition(digits.count % 2 == 0)
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func hex(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// The bytes that `body` writes.
func written(_ body: (inout ByteBuffer) -> Void) -> [UInt8] {
    var out = ByteBuffer()
    body(&out)
    return Array(out.readable)
}

/// The one message that `body` writes, without gRPC's prefix.
func message(_ body: (inout ByteBuffer) -> Void) throws -> [UInt8] {
    let bytes = written(body)
    try #require(bytes.count >= 5 && bytes[0] == 0)
    #expect(bytes[1..<5].reduce(0) { $0 << 8 | Int($1) } == bytes.count - 5)
    return Array(bytes[5...])
}

/// Runs `body` with the bytes in memory.
func inMemory<R>(
    _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(GRPCError) -> R
) throws(GRPCError) -> R {
    try bytes.withUnsafeBufferPointer { (bytes) throws(GRPCError) in try body(UnsafeRawBufferPointer(bytes)) }
}

/// What `body` throws; nil if nothing.
func refusal(_ body: () throws(GRPCError) -> Void) -> GRPCError? {
    do throws(GRPCError) {
        try body()
        return nil
    } catch {
        return error
    }
}

/// Runs `body` with each proper prefix of `bytes`, in memory that ends where the prefix ends.
func forEachPrefix(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
    for count in 0..<bytes.count { try Array(bytes[..<count]).withUnsafeBytes(body) }
}

/// A small generator whose seed makes runs repeatable.
struct Repeatable: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9e37_79b9_7f4a_7c15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state &* 0x2545_f491_4f6c_dd1d
    }

    /// `bytes` with a few of them changed, removed or added.
    mutating func mutate(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &self) {
            let place = Int.random(in: 0...bytes.count, using: &self)
            switch Int.random(in: 0..<4, using: &self) {
            case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &self)
            case 1 where place < bytes.count: bytes.remove(at: place)
            case 2: bytes.insert(UInt8.random(in: 0...255, using: &self), at: place)
            default: bytes.insert(contentsOf: bytes.prefix(place), at: place)
            }
            if bytes.count > 2000 { bytes.removeLast(bytes.count - 2000) }
        }
        return bytes
    }
}

/// Requests as written by Python's protobuf 7.36.
enum Golden {
    static let openFrom = hex(
        "0a240a0c776561746865722e6f736c6f10ac0228b009308de08bf0c08afce85b380840054801")
    static let openLast = hex("0a0f0a017410ffffffff0718ffffffff0f")
    static let openAll = hex("0a090a0174100120014003")
    static let request = hex("10ac02")
    static let publishOpen = hex("0a070a03612e621001")
    static let publishMessage = hex(
        "122d1205342e312043220a746578742f706c61696e2a090a05656d70747912002a0d0a057472616365120473c3b86b")
    static let publishEmpty = hex("1200")
    static let publishFail = hex("1a096e6f2073656e736f72")
    /// A topic `a.b`, and a message with sequence, timestamp −1 and a payload of bytes 0 to 129.
    static let publishOne =
        hex("0a03612e621292010809128201") + (0..<130).map { UInt8($0) } + hex("18ffffffffffffffffff01")
    static let failTopic = hex("0a03612e6212096e6f2073656e736f72")
    static let health = hex("0a11666f72656261792e76312e507562537562")
    static let listServices = hex("0a01683a012a")
    static let symbol = hex("2212666f72656261792e76312e4d657373616765")
    static let `extension` = hex("2a160a12666f72656261792e76312e4d6573736167651064")

    static let all = [
        openFrom, openLast, openAll, request, publishOpen, publishMessage, publishEmpty, publishFail, publishOne,
        failTopic, health, listServices, symbol, `extension`,
    ]
}
