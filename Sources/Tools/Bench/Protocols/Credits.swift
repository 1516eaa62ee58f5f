// Credits: what a publisher reads from the broker's half of its channel.

import Bytes
import RSocket

/// Parses the parts of RSocket frames that a publisher needs.
struct CreditReader {
    /// Messages granted so far.
    private(set) var granted = 0
    /// Whether the first acknowledgement has arrived.
    private(set) var isAcknowledged = false
    /// Whether the broker's half is complete, which acknowledges everything.
    private(set) var isComplete = false
    private var rest: [UInt8] = []

    /// Parses bytes from the socket.
    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(BenchError) {
        rest.append(contentsOf: bytes)
        var offset = 0
        while rest.count - offset >= 9 {
            let length = CreditReader.number(rest, at: offset, bytes: 3)
            guard rest.count - offset >= 3 + length else { break }
            try takeFrame(at: offset, length: length)
            offset += 3 + length
        }
        rest.removeFirst(offset)
    }

    private mutating func takeFrame(at offset: Int, length: Int) throws(BenchError) {
        let head = CreditReader.number(rest, at: offset + 7, bytes: 2)
        let body = offset + 9
        switch UInt8(head >> 10) {
        case FrameType.requestN.rawValue where length >= 10:
            granted += CreditReader.number(rest, at: body, bytes: 4)
        case FrameType.payload.rawValue:
            let flags = FrameFlags(rawValue: UInt16(head & 0x3ff))
            if flags.contains(.next) { isAcknowledged = true }
            if flags.contains(.complete) { isComplete = true }
        case FrameType.error.rawValue where length >= 10:
            let text = String(decoding: rest[(body + 4)..<(offset + 3 + length)], as: UTF8.self)
            throw BenchError("the broker refused the publisher: \(text)")
        default: break
        }
    }

    static func number(_ bytes: [UInt8], at offset: Int, bytes count: Int) -> Int {
        var value = 0
        for index in 0..<count { value = value << 8 | Int(bytes[offset + index]) }
        return value
    }
}
