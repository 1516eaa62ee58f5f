// FrameWriter: appends whole frames, each with its 3-byte length, to a byte buffer.
//
// Fragmentation follows RSocket 1.0 and what clients accept. The first fragment keeps the message's type, the rest are
// PAYLOAD. All metadata comes before any data, and each fragment with metadata has M and its own metadata length. Every
// PAYLOAD fragment has N (rsocket-java rejects it otherwise); only the last has C. All fragments except the last are
// filled up, so none of them is shorter than the 61 bytes that rsocket-java requires.

import Bytes

/// Writes frames. A parameter named `fragment` is the longest frame to write, in bytes without the preceding length. 0
/// or less means the longest that the wire allows; values below 64 are raised to 64.
public enum FrameWriter {
    // MARK: Frames of the connection

    /// Appends KEEPALIVE.
    ///
    /// - Parameters:
    ///   - respond: whether the peer must answer.
    ///   - position: the last received position, 0 without resumption.
    ///   - data: echoed by a compliant peer.
    public static func keepalive(
        respond: Bool, position: UInt64, data: UnsafeRawBufferPointer, into out: inout ByteBuffer
    ) {
        header(.keepalive, respond ? .respond : [], stream: 0, body: 8 + data.count, into: &out)
        out.append(bigEndian: position & (UInt64.max >> 1))
        out.append(data)
    }

    /// Appends ERROR, which on stream 0 ends the connection.
    public static func error(stream: UInt32, code: ErrorCode, message: String, into out: inout ByteBuffer) {
        error(stream: stream, code: code.rawValue, message: message, into: &out)
    }

    /// Appends ERROR with an application's code, or with one that no peer should send.
    public static func error(stream: UInt32, code: UInt32, message: String, into out: inout ByteBuffer) {
        var message = message
        message.withUTF8 { text in
            let text = UnsafeRawBufferPointer(start: text.baseAddress, count: min(text.count, Wire.maxFrame - 10))
            header(.error, [], stream: stream, body: 4 + text.count, into: &out)
            out.append(bigEndian: code)
            out.append(text)
        }
    }

    /// Appends the ERROR that `error` calls for.
    public static func error(_ error: RSocketError, into out: inout ByteBuffer) {
        self.error(stream: error.stream, code: error.code, message: error.message, into: &out)
    }

    /// Appends METADATA_PUSH.
    public static func metadataPush(_ metadata: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        header(.metadataPush, .metadata, stream: 0, body: metadata.count, into: &out)
        out.append(metadata)
    }

    /// Appends LEASE: `n` requests within `ttl` milliseconds.
    public static func lease(
        ttl: UInt32, n: UInt32, metadata: UnsafeRawBufferPointer? = nil, into out: inout ByteBuffer
    ) {
        let flags: FrameFlags = metadata == nil ? [] : .metadata
        header(.lease, flags, stream: 0, body: 8 + (metadata?.count ?? 0), into: &out)
        out.append(bigEndian: ttl & Wire.maxU31)
        out.append(bigEndian: n & Wire.maxU31)
        if let metadata { out.append(metadata) }
    }

    // MARK: Frames of a stream

    /// Appends REQUEST_N. `n` is masked to 31 bits; 0 is forbidden on the wire, which the caller must check.
    public static func requestN(stream: UInt32, n: UInt32, into out: inout ByteBuffer) {
        header(.requestN, [], stream: stream, body: 4, into: &out)
        out.append(bigEndian: n & Wire.maxU31)
    }

    /// Appends CANCEL.
    public static func cancel(stream: UInt32, into out: inout ByteBuffer) {
        header(.cancel, [], stream: stream, body: 0, into: &out)
    }

    /// Appends PAYLOAD, in as many fragments as needed.
    ///
    /// - Parameters:
    ///   - next: the message has an item. Fragmented messages always carry N.
    ///   - complete: the sender's half ends with this message.
    ///   - metadata: nil means no metadata; empty means present but empty.
    public static func payload(
        stream: UInt32, next: Bool, complete: Bool, metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer,
        fragment: Int, into out: inout ByteBuffer
    ) {
        var message = Message(
            type: .payload, stream: stream, initialN: nil, next: next, complete: complete, metadata: metadata,
            data: data)
        message.write(fragment: fragment, into: &out)
    }

    /// Appends REQUEST_RESPONSE.
    public static func requestResponse(
        stream: UInt32, metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer, fragment: Int,
        into out: inout ByteBuffer
    ) {
        var message = Message(
            type: .requestResponse, stream: stream, initialN: nil, next: false, complete: false, metadata: metadata,
            data: data)
        message.write(fragment: fragment, into: &out)
    }

    /// Appends REQUEST_FNF.
    public static func requestFNF(
        stream: UInt32, metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer, fragment: Int,
        into out: inout ByteBuffer
    ) {
        var message = Message(
            type: .requestFNF, stream: stream, initialN: nil, next: false, complete: false, metadata: metadata,
            data: data)
        message.write(fragment: fragment, into: &out)
    }

    /// Appends REQUEST_STREAM.
    public static func requestStream(
        stream: UInt32, initialN: UInt32, metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer,
        fragment: Int, into out: inout ByteBuffer
    ) {
        var message = Message(
            type: .requestStream, stream: stream, initialN: initialN, next: false, complete: false,
            metadata: metadata, data: data)
        message.write(fragment: fragment, into: &out)
    }

    /// Appends REQUEST_CHANNEL. `complete`: the requester's half ends with item 0.
    public static func requestChannel(
        stream: UInt32, initialN: UInt32, complete: Bool, metadata: UnsafeRawBufferPointer?,
        data: UnsafeRawBufferPointer, fragment: Int, into out: inout ByteBuffer
    ) {
        var message = Message(
            type: .requestChannel, stream: stream, initialN: initialN, next: false, complete: complete,
            metadata: metadata, data: data)
        message.write(fragment: fragment, into: &out)
    }

    /// The bytes that `payload` appends for a message of this size, including lengths and headers of all fragments.
    public static func payloadSize(metadata: Int?, data: Int, fragment: Int) -> Int {
        let limit = effective(fragment)
        var metadataLeft = metadata
        var dataLeft = data
        var size = 0
        repeat {
            let part = Part(fixed: 0, metadata: metadataLeft, data: dataLeft, limit: limit)
            size += Wire.lengthSize + part.length
            dataLeft -= part.data
            metadataLeft = part.metadataAfter
        } while dataLeft > 0 || metadataLeft != nil
        return size
    }

    // MARK: Parts

    /// Appends the length and the header of a frame with `body` more bytes.
    static func header(
        _ type: FrameType, _ flags: FrameFlags, stream: UInt32, body: Int, into out: inout ByteBuffer
    ) {
        let length = Wire.headerSize + body
        precondition(length <= Wire.maxFrame, "a frame is too long for its 24-bit length")
        let target = out.reserve(Wire.lengthSize + Wire.headerSize)
        let word = UInt16(type.rawValue) << 10 | flags.rawValue
        target.storeBytes(of: UInt16(truncatingIfNeeded: length >> 8).bigEndian, as: UInt16.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: length), toByteOffset: 2, as: UInt8.self)
        target.storeBytes(of: (stream & Wire.maxU31).bigEndian, toByteOffset: 3, as: UInt32.self)
        target.storeBytes(of: word.bigEndian, toByteOffset: 7, as: UInt16.self)
        out.commit(Wire.lengthSize + Wire.headerSize)
    }

    static func effective(_ fragment: Int) -> Int {
        fragment <= 0 ? Wire.maxFrame : min(max(fragment, Wire.minFragment), Wire.maxFrame)
    }

    /// How much of a message goes into its next fragment.
    struct Part {
        /// Metadata in this fragment; nil means none, and no M.
        var metadata: Int?
        var data: Int
        /// The remaining metadata; nil if there is none.
        var metadataAfter: Int?
        /// The frame's length.
        var length: Int

        /// - Parameter fixed: bytes between the header and the content.
        init(fixed: Int, metadata left: Int?, data dataLeft: Int, limit: Int) {
            var room = limit - Wire.headerSize - fixed
            if let left {
                let taken = min(left, room - 3)
                room -= 3 + taken
                metadata = taken
                metadataAfter = taken < left ? left - taken : nil
            }
            data = metadataAfter == nil ? min(dataLeft, room) : 0
            length = Wire.headerSize + fixed + (metadata.map { $0 + 3 } ?? 0) + data
        }
    }

    /// A request or PAYLOAD being written.
    private struct Message {
        var type: FrameType
        let stream: UInt32
        var initialN: UInt32?
        let next: Bool
        let complete: Bool
        var metadata: UnsafeRawBufferPointer?
        var data: UnsafeRawBufferPointer

        mutating func write(fragment: Int, into out: inout ByteBuffer) {
            let limit = FrameWriter.effective(fragment)
            var first = true
            while true {
                let part = Part(
                    fixed: initialN == nil ? 0 : 4, metadata: metadata?.count, data: data.count, limit: limit)
                let last = part.metadataAfter == nil && part.data == data.count
                writePart(part, only: first && last, last: last, into: &out)
                if last { return }
                first = false
                type = .payload
                initialN = nil
            }
        }

        private mutating func writePart(_ part: Part, only: Bool, last: Bool, into out: inout ByteBuffer) {
            var flags: FrameFlags = []
            if part.metadata != nil { flags.insert(.metadata) }
            if !last { flags.insert(.follows) }
            if last && complete { flags.insert(.complete) }
            if type == .payload && (next || !only) { flags.insert(.next) }
            FrameWriter.header(type, flags, stream: stream, body: part.length - Wire.headerSize, into: &out)
            if let initialN { out.append(bigEndian: initialN & Wire.maxU31) }
            if let count = part.metadata, let bytes = metadata {
                out.append(u24: count)
                out.append(bytes.slice(0..<count))
                metadata = part.metadataAfter == nil ? nil : bytes.slice(count..<bytes.count)
            }
            out.append(data.slice(0..<part.data))
            data = data.slice(part.data..<data.count)
        }
    }
}
