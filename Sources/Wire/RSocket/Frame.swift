// Frame: one frame decoded in place. Fields are values or ranges of offsets; no bytes are copied. The layouts are those
// of RSocket 1.0, section "Frame Types".

/// The six bytes at the start of every frame.
public struct FrameHeader: Sendable, Equatable {
    /// The stream; 0 is the connection itself. The reserved top bit is masked off.
    public var stream: UInt32
    /// The six type bits, known or not.
    public var typeCode: UInt8
    public var flags: FrameFlags

    /// Nil if RSocket 1.0 does not define the type.
    public var type: FrameType? { FrameType(rawValue: typeCode) }

    /// The type's name, or its number if it has none.
    public var typeName: String { type?.name ?? "0x" + String(typeCode, radix: 16) }

    public init(stream: UInt32, typeCode: UInt8, flags: FrameFlags) {
        self.stream = stream
        self.typeCode = typeCode
        self.flags = flags
    }

    /// Reads the header at the start of `bytes`, which must have at least six.
    @inline(__always)
    init(unchecked bytes: RawSpan) {
        let word = bytes.u16(4)
        stream = bytes.u32(0) & Wire.maxU31
        typeCode = UInt8(truncatingIfNeeded: word >> 10)
        flags = FrameFlags(rawValue: word & 0x3ff)
    }
}

/// A decoded frame, without the length that precedes it on TCP. Ranges are offsets into the decoded bytes.
public struct Frame: Sendable, Equatable {
    public var header: FrameHeader
    public var body: Body

    public var stream: UInt32 { header.stream }
    public var flags: FrameFlags { header.flags }

    /// Metadata and data of a request or PAYLOAD. `metadata` is nil without M, and an empty range if present but empty.
    public struct Content: Sendable, Equatable {
        public var metadata: Range<Int>?
        public var data: Range<Int>
    }

    /// The fields of SETUP. Times are milliseconds, 31 bits.
    public struct Setup: Sendable, Equatable {
        public var major: UInt16
        public var minor: UInt16
        public var keepalive: UInt32
        public var lifetime: UInt32
        public var resumeToken: Range<Int>?
        public var lease: Bool
        public var metadataMime: Range<Int>
        public var dataMime: Range<Int>
        public var content: Content
    }

    /// The fields of RESUME. Positions are byte counts, 63 bits.
    public struct Resume: Sendable, Equatable {
        public var major: UInt16
        public var minor: UInt16
        public var token: Range<Int>
        public var lastReceivedServerPosition: UInt64
        public var firstAvailableClientPosition: UInt64
    }

    public enum Body: Sendable, Equatable {
        indirect case setup(Setup)
        case lease(ttl: UInt32, n: UInt32, metadata: Range<Int>?)
        case keepalive(respond: Bool, position: UInt64, data: Range<Int>)
        case requestResponse(Content)
        case requestFNF(Content)
        case requestStream(initialN: UInt32, Content)
        case requestChannel(initialN: UInt32, complete: Bool, Content)
        case requestN(UInt32)
        case cancel
        /// The flags as sent. With neither, some clients mean an empty item.
        case payload(next: Bool, complete: Bool, Content)
        case error(code: UInt32, message: Range<Int>)
        case metadataPush(Range<Int>)
        indirect case resume(Resume)
        case resumeOK(position: UInt64)
        case ext(type: UInt32, Range<Int>)
        /// A type that RSocket 1.0 does not define. The I flag says whether it may be ignored.
        case unknown
    }

    /// Whether more fragments follow. C is valid only on a last fragment, so F together with C is the sender's mistake
    /// and F is ignored.
    public var follows: Bool {
        guard flags.contains(.follows) else { return false }
        switch body {
        case .requestResponse, .requestFNF, .requestStream: return true
        case .requestChannel, .payload: return !flags.contains(.complete)
        default: return false
        }
    }

    /// Decodes one whole frame.
    ///
    /// - Parameter bytes: the frame without its length.
    /// - Throws: CONNECTION_ERROR if the frame is shorter than its fields or a length in it points outside. RSocket 1.0
    ///   then requires the receiver to close the connection, unless the I flag is set and it ignores the frame.
    public static func decode(_ bytes: RawSpan) throws(RSocketError) -> Frame {
        guard bytes.byteCount >= Wire.headerSize else {
            throw .connection(
                .connectionError, "A frame has \(bytes.byteCount) bytes, less than the 6 bytes of a frame header.")
        }
        let header = FrameHeader(unchecked: bytes)
        return Frame(header: header, body: try decodeBody(bytes, header))
    }

    private static func decodeBody(_ bytes: RawSpan, _ header: FrameHeader) throws(RSocketError) -> Body {
        let start = Wire.headerSize
        guard let type = header.type else { return .unknown }
        switch type {
        case .payload:
            let flags = header.flags
            return .payload(
                next: flags.contains(.next), complete: flags.contains(.complete), try content(bytes, header, at: start))
        case .requestN:
            try need(bytes, header, 4)
            return .requestN(bytes.u31(start))
        case .cancel:
            return .cancel
        case .requestResponse:
            return .requestResponse(try content(bytes, header, at: start))
        case .requestFNF:
            return .requestFNF(try content(bytes, header, at: start))
        case .requestStream:
            try need(bytes, header, 4)
            return .requestStream(initialN: bytes.u31(start), try content(bytes, header, at: start + 4))
        case .requestChannel:
            try need(bytes, header, 4)
            return .requestChannel(
                initialN: bytes.u31(start), complete: header.flags.contains(.complete),
                try content(bytes, header, at: start + 4))
        default:
            return try decodeControl(bytes, header, type)
        }
    }

    /// The types that are not on the hot path of messages.
    private static func decodeControl(
        _ bytes: RawSpan, _ header: FrameHeader, _ type: FrameType
    ) throws(RSocketError) -> Body {
        let start = Wire.headerSize
        let end = bytes.byteCount
        switch type {
        case .keepalive:
            try need(bytes, header, 8)
            return .keepalive(
                respond: header.flags.contains(.respond), position: bytes.u63(start), data: start + 8..<end)
        case .error:
            try need(bytes, header, 4)
            return .error(code: bytes.u32(start), message: start + 4..<end)
        case .metadataPush:
            return .metadataPush(start..<end)
        case .setup:
            return .setup(try setup(bytes, header))
        case .lease:
            try need(bytes, header, 8)
            let metadata = header.flags.contains(.metadata) ? start + 8..<end : nil
            return .lease(ttl: bytes.u31(start), n: bytes.u31(start + 4), metadata: metadata)
        case .resume:
            var fields = FieldReader(at: start)
            let major = try fields.u16(bytes, header)
            let minor = try fields.u16(bytes, header)
            let token = try fields.take(Int(try fields.u16(bytes, header)), bytes, header)
            let positions = try fields.take(16, bytes, header).lowerBound
            return .resume(
                Resume(
                    major: major, minor: minor, token: token, lastReceivedServerPosition: bytes.u63(positions),
                    firstAvailableClientPosition: bytes.u63(positions + 8)))
        case .resumeOK:
            try need(bytes, header, 8)
            return .resumeOK(position: bytes.u63(start))
        case .ext:
            try need(bytes, header, 4)
            return .ext(type: bytes.u31(start), start + 4..<end)
        default:
            return .unknown
        }
    }

    private static func setup(_ bytes: RawSpan, _ header: FrameHeader) throws(RSocketError) -> Setup {
        var fields = FieldReader(at: Wire.headerSize)
        let major = try fields.u16(bytes, header)
        let minor = try fields.u16(bytes, header)
        let times = try fields.take(8, bytes, header).lowerBound
        var token: Range<Int>?
        if header.flags.contains(.resume) {
            token = try fields.take(Int(try fields.u16(bytes, header)), bytes, header)
        }
        let metadataMime = try fields.take(Int(try fields.u8(bytes, header)), bytes, header)
        let dataMime = try fields.take(Int(try fields.u8(bytes, header)), bytes, header)
        return Setup(
            major: major, minor: minor, keepalive: bytes.u31(times), lifetime: bytes.u31(times + 4),
            resumeToken: token, lease: header.flags.contains(.lease), metadataMime: metadataMime, dataMime: dataMime,
            content: try content(bytes, header, at: fields.offset))
    }

    /// `[M: length:u24 metadata] data` up to the end of the frame.
    @inline(__always)
    private static func content(
        _ bytes: RawSpan, _ header: FrameHeader, at start: Int
    ) throws(RSocketError) -> Content {
        let end = bytes.byteCount
        guard header.flags.contains(.metadata) else { return Content(metadata: nil, data: start..<end) }
        guard end - start >= 3 else { throw truncated(bytes, header) }
        let length = bytes.u24(start)
        guard length <= end - start - 3 else {
            throw .connection(
                .connectionError,
                "A frame of type \(header.typeName) declares \(length) bytes of metadata, "
                    + "but only \(end - start - 3) bytes are left in it.")
        }
        return Content(metadata: start + 3..<start + 3 + length, data: start + 3 + length..<end)
    }

    @inline(__always)
    private static func need(_ bytes: RawSpan, _ header: FrameHeader, _ count: Int) throws(RSocketError) {
        guard bytes.byteCount >= Wire.headerSize + count else { throw truncated(bytes, header) }
    }

    fileprivate static func truncated(_ bytes: RawSpan, _ header: FrameHeader) -> RSocketError {
        .connection(
            .connectionError,
            "A frame of type \(header.typeName) with \(bytes.byteCount) bytes is too short for its fields.")
    }
}

/// Takes one field after another and throws at the end of the frame.
private struct FieldReader {
    var offset: Int

    init(at offset: Int) { self.offset = offset }

    mutating func take(_ count: Int, _ bytes: RawSpan, _ header: FrameHeader) throws(RSocketError) -> Range<Int> {
        guard bytes.byteCount - offset >= count else { throw Frame.truncated(bytes, header) }
        defer { offset += count }
        return offset..<offset + count
    }

    mutating func u8(_ bytes: RawSpan, _ header: FrameHeader) throws(RSocketError) -> UInt8 {
        bytes.u8(try take(1, bytes, header).lowerBound)
    }

    mutating func u16(_ bytes: RawSpan, _ header: FrameHeader) throws(RSocketError) -> UInt16 {
        bytes.u16(try take(2, bytes, header).lowerBound)
    }
}

// Big-endian loads; each checks the span's bounds.
extension RawSpan {
    @inline(__always)
    func u8(_ offset: Int) -> UInt8 { unsafeLoadUnaligned(fromByteOffset: offset, as: UInt8.self) }

    @inline(__always)
    func u16(_ offset: Int) -> UInt16 {
        UInt16(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    @inline(__always)
    func u24(_ offset: Int) -> Int { Int(u16(offset)) << 8 | Int(u8(offset + 2)) }

    @inline(__always)
    func u32(_ offset: Int) -> UInt32 {
        UInt32(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @inline(__always)
    func u31(_ offset: Int) -> UInt32 { u32(offset) & Wire.maxU31 }

    @inline(__always)
    func u63(_ offset: Int) -> UInt64 {
        UInt64(bigEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self)) & (UInt64.max >> 1)
    }
}
