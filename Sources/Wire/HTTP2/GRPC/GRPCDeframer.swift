// GRPCDeframer: extracts the messages of one call from DATA chunks that may be split anywhere.
//
//     between ──a chunk ends within a message──▶ within ──its last byte──▶ between
//        └──────── compressed, too long, cut short ────────▶ broken

import Bytes

/// Extracts messages from a call's DATA. A message that is whole within a chunk is returned in place; a split one is
/// assembled in a buffer of at most `limit` bytes and a prefix.
///
///     var rest = chunk
///     while let message = try deframer.next(&rest) { … }
///
/// After an error the deframer accepts nothing more: the call has ended.
public struct GRPCDeframer: ~Copyable {
    /// Maximum bytes of a message; a longer one fails with RESOURCE_EXHAUSTED.
    public let limit: Int
    /// The part of an incomplete message that has arrived.
    private var held = ByteBuffer()
    /// Bytes at the front of `held` that the last `next` returned.
    private var handedOut = 0
    private var isBroken = false
    /// Messages returned so far.
    public private(set) var count: UInt64 = 0

    /// - Parameter limit: the largest message, in bytes without prefix; at least 1.
    public init(limit: Int) {
        precondition(limit > 0 && limit <= Int(UInt32.max))
        self.limit = limit
    }

    /// Bytes kept of an incomplete message, at most `limit` and the prefix.
    public var heldBytes: Int { held.count - handedOut }
    /// Bytes of memory that hold the incomplete message.
    public var heldMemory: Int { held.capacity }

    /// The next whole message without its prefix; nil once `rest` is used up. The message is valid until the next call,
    /// and only while the chunk is.
    ///
    /// - Parameter rest: the remaining part of the chunk, which is advanced.
    /// - Throws: UNIMPLEMENTED for a compressed message, RESOURCE_EXHAUSTED for one above `limit`, INTERNAL for an
    ///   invalid prefix. The call has then ended.
    public mutating func next(_ rest: inout UnsafeRawBufferPointer) throws(GRPCError) -> UnsafeRawBufferPointer? {
        release()
        guard !isBroken else {
            rest = .nothing
            return nil
        }
        guard let message = held.isEmpty ? try inPlace(&rest) : try putTogether(&rest) else { return nil }
        count &+= 1
        return message
    }

    /// Checks that no message is incomplete; called when the client has half-closed.
    ///
    /// - Throws: INTERNAL if a message is incomplete.
    public mutating func finish() throws(GRPCError) {
        release()
        guard !isBroken, !held.isEmpty else { return }
        isBroken = true
        throw GRPCError(
            .internal,
            "The stream ended within a message, after \(held.count) bytes of it; send complete messages.")
    }

    private mutating func release() {
        guard handedOut > 0 else { return }
        held.consume(handedOut)
        handedOut = 0
        // Do not keep the memory of one long message for the rest of the call.
        held.shrink(above: GRPCDeframer.keptCapacity)
    }

    /// Memory kept between split messages.
    static let keptCapacity = 4096

    private mutating func inPlace(
        _ rest: inout UnsafeRawBufferPointer
    ) throws(GRPCError) -> UnsafeRawBufferPointer? {
        guard rest.count >= GRPCFraming.prefix else {
            if let first = rest.first { try check(flag: first) }
            held.append(rest)
            rest = .nothing
            return nil
        }
        let end = GRPCFraming.prefix + (try length(rest))
        guard rest.count >= end else {
            held.append(rest)
            rest = .nothing
            return nil
        }
        let message = rest.slice(GRPCFraming.prefix..<end)
        rest = rest.slice(end..<rest.count)
        return message
    }

    private mutating func putTogether(
        _ rest: inout UnsafeRawBufferPointer
    ) throws(GRPCError) -> UnsafeRawBufferPointer? {
        fill(upTo: GRPCFraming.prefix, from: &rest)
        guard held.count >= GRPCFraming.prefix else { return nil }
        let end = GRPCFraming.prefix + (try length(held.readable))
        fill(upTo: end, from: &rest)
        guard held.count == end else { return nil }
        handedOut = end
        return held.readable.slice(GRPCFraming.prefix..<end)
    }

    private mutating func fill(upTo count: Int, from rest: inout UnsafeRawBufferPointer) {
        let taken = Swift.min(rest.count, Swift.max(0, count - held.count))
        held.append(rest.slice(0..<taken))
        rest = rest.slice(taken..<rest.count)
    }

    /// The length of the message whose prefix is at the front of `bytes`.
    private mutating func length(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> Int {
        try check(flag: bytes[0])
        let length = Int(bytes.bigEndian(at: 1, as: UInt32.self))
        guard length <= limit else {
            isBroken = true
            throw GRPCError(
                .resourceExhausted, "A message has \(length) bytes; at most \(limit) are allowed.")
        }
        return length
    }

    private mutating func check(flag: UInt8) throws(GRPCError) {
        guard flag != 0 else { return }
        isBroken = true
        if flag == 1 {
            throw GRPCError(.unimplemented, "Compressed messages are not supported; use the identity encoding.")
        }
        throw GRPCError(
            .internal, "A message begins with byte \(flag) instead of 0 (or 1, compressed); its framing is broken.")
    }
}
