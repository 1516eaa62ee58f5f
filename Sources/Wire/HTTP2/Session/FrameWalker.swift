// FrameWalker: finds the frames in the received bytes, so that they can be counted before nghttp2 sees them – it
// reports some only when it is too late – and passed to it one at a time.
//
//     preface --24 bytes--> header --9 bytes--> payload --length bytes--> header …

import Bytes

/// A frame's header (RFC 9113, 4.1).
struct FrameHead {
    var length: Int
    var type: UInt8
    var flags: UInt8
    var stream: UInt32

    enum Kind {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let priority: UInt8 = 2
        static let resetStream: UInt8 = 3
        static let settings: UInt8 = 4
        static let pushPromise: UInt8 = 5
        static let ping: UInt8 = 6
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
        static let priorityUpdate: UInt8 = 0x10
    }

    static let ack: UInt8 = 1
    static let endStream: UInt8 = 1
    static let endHeaders: UInt8 = 4
    static let size = 9

    /// Whether the sender will send nothing on the stream after this frame, except CONTINUATION.
    var endsStream: Bool { (type == Kind.data || type == Kind.headers) && flags & Self.endStream != 0 }
}

struct FrameWalker {
    private enum State {
        case preface(left: Int)
        case header(have: Int)
        case payload(left: Int)
    }

    private var state: State
    private var partial = InlineArray<9, UInt8>(repeating: 0)

    /// - Parameter role: this side's role; only clients send a preface.
    init(_ role: Connection.Role) { state = role == .server ? .preface(left: 24) : .header(have: 0) }

    /// Whether a header section has begun and needs CONTINUATION to complete it.
    private var isInSection = false

    /// Whether a frame or a header section has begun but not ended.
    var isInside: Bool {
        if isInSection { return true }
        return switch state {
        case .preface(let left): left < 24
        case .header(let have): have > 0
        case .payload: true
        }
    }

    /// Whether `bytes`, which come next, begin with a frame of this type.
    func isNext(_ type: UInt8, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard case .header(have: 0) = state else { return false }
        return bytes.count >= FrameHead.size && bytes[3] == type
    }

    /// Takes bytes up to the end of a frame, of the preface, or of `bytes`.
    ///
    /// - Returns: the number of bytes taken, and the frame header that they completed, if any.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> (count: Int, head: FrameHead?) {
        switch state {
        case .preface(let left):
            let count = min(left, bytes.count)
            state = count == left ? .header(have: 0) : .preface(left: left - count)
            return (count, nil)
        case .payload(let left):
            return (pass(left, of: bytes.count), nil)
        case .header(let have):
            let count = min(FrameHead.size - have, bytes.count)
            for index in 0..<count { partial[have + index] = bytes[index] }
            guard have + count == FrameHead.size else {
                state = .header(have: have + count)
                return (count, nil)
            }
            let head = completed()
            if head.type == FrameHead.Kind.headers || head.type == FrameHead.Kind.continuation {
                isInSection = head.flags & FrameHead.endHeaders == 0
            }
            return (count + pass(head.length, of: bytes.count - count), head)
        }
    }

    private mutating func pass(_ left: Int, of available: Int) -> Int {
        let count = min(left, available)
        state = count == left ? .header(have: 0) : .payload(left: left - count)
        return count
    }

    private func completed() -> FrameHead {
        FrameHead(
            length: Int(partial[0]) << 16 | Int(partial[1]) << 8 | Int(partial[2]), type: partial[3],
            flags: partial[4],
            stream: UInt32(partial[5] & 0x7f) << 24 | UInt32(partial[6]) << 16 | UInt32(partial[7]) << 8
                | UInt32(partial[8]))
    }
}
