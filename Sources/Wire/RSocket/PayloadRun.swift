// PayloadRun: consecutive messages of a channel, parsed together. At full speed, publishers send long runs of PAYLOAD
// frames of one stream with the N flag and nothing else. Such a run means the same as its frames one by one, and can be
// taken as a whole.

import Bytes

/// Whole PAYLOAD frames of one stream, each after its length. Each is a message with N, without metadata, unfragmented
/// and not the last of its half.
public struct PayloadRun {
    /// Length, stream id, type and flags.
    public static let frameHead = Wire.lengthSize + Wire.headerSize

    public let stream: UInt32
    /// The frames. Valid until the next call of `next`, `feed` or `acceptSetup`.
    public let bytes: UnsafeRawBufferPointer
    /// Number of frames, at least 1.
    public let count: Int
    /// Bytes of data in the longest message.
    public let longest: Int

    /// Bytes of data in all messages.
    public var data: Int { bytes.count - count * PayloadRun.frameHead }

    /// The stream of the run at the start of `input`; nil if no run begins there.
    @inline(__always)
    static func stream(at input: UnsafeRawBufferPointer) -> UInt32? {
        guard input.count >= frameHead else { return nil }
        let head = input.bigEndian(at: 1, as: UInt64.self)
        guard UInt16(truncatingIfNeeded: head) == kind else { return nil }
        // A set reserved bit is left to the frame decoder, which masks it.
        let stream = UInt32(truncatingIfNeeded: head >> 16)
        return stream <= Wire.maxU31 ? stream : nil
    }

    /// Takes as many frames at the front of `input` as belong to a run of `stream` with at most `maxData` bytes each;
    /// nil if the first one does not, or has not fully arrived.
    init?(_ input: UnsafeRawBufferPointer, stream: UInt32, maxData: Int) {
        guard let base = input.baseAddress else { return nil }
        let expected = UInt64(stream) << 16 | UInt64(PayloadRun.kind)
        var offset = 0
        var count = 0
        var longest = 0
        while input.count - offset >= PayloadRun.frameHead {
            // The low half of the length, the stream, type and flags; the high byte of the length precedes them.
            let head = UInt64(bigEndian: base.loadUnaligned(fromByteOffset: offset + 1, as: UInt64.self))
            let length = Int(base.load(fromByteOffset: offset, as: UInt8.self)) << 16 | Int(head >> 48)
            let data = length - Wire.headerSize
            guard head & 0xFFFF_FFFF_FFFF == expected, data >= 0, data <= maxData,
                data <= input.count - offset - PayloadRun.frameHead
            else { break }
            if data > longest { longest = data }
            offset &+= PayloadRun.frameHead &+ data
            count &+= 1
        }
        guard count > 0 else { return nil }
        self.stream = stream
        bytes = input.slice(0..<offset)
        self.count = count
        self.longest = longest
    }

    /// For runs that have been checked already, such as those sent between threads.
    public init(checked bytes: UnsafeRawBufferPointer, stream: UInt32, count: Int, longest: Int) {
        self.stream = stream
        self.bytes = bytes
        self.count = count
        self.longest = longest
    }

    /// Calls `body` with the data of each message in order, until it returns false.
    public func forEach(_ body: (UnsafeRawBufferPointer) -> Bool) {
        var offset = 0
        while offset < bytes.count {
            let end = offset + Wire.lengthSize + bytes.u24(at: offset)
            guard body(bytes.slice(offset + PayloadRun.frameHead..<end)) else { return }
            offset = end
        }
    }

    /// Type and flags of the frames.
    private static let kind = UInt16(FrameType.payload.rawValue) << 10 | FrameFlags.next.rawValue
}
