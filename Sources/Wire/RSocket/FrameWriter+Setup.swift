// FrameWriter+Setup: the frames that open a connection, for clients and tests.

import Bytes

/// The client's SETUP.
public struct SetupRequest: Sendable {
    public var major: UInt16 = 1
    public var minor: UInt16 = 0
    /// Milliseconds between the client's KEEPALIVEs.
    public var keepalive: UInt32 = 20_000
    /// Milliseconds without a KEEPALIVE after which the peer is considered dead.
    public var lifetime: UInt32 = 90_000
    /// Asks for a resumable connection (R).
    public var resumeToken: [UInt8]?
    /// Whether the client honors LEASE (L).
    public var lease = false
    /// At most 255 bytes each.
    public var metadataMime = MimeType.compositeMetadata
    public var dataMime = MimeType.octetStream

    public init() {}
}

extension FrameWriter {
    /// Appends SETUP, which is never fragmented.
    public static func setup(
        _ setup: SetupRequest = SetupRequest(), metadata: UnsafeRawBufferPointer? = nil,
        data: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), into out: inout ByteBuffer
    ) {
        let mimes = [setup.metadataMime, setup.dataMime]
        precondition(mimes.allSatisfy { $0.utf8.count <= 255 }, "a MIME type in SETUP has at most 255 bytes")
        precondition(setup.resumeToken.map { $0.count <= 0xffff } ?? true, "a resume token has at most 65,535 bytes")
        var flags: FrameFlags = []
        if setup.resumeToken != nil { flags.insert(.resume) }
        if setup.lease { flags.insert(.lease) }
        if metadata != nil { flags.insert(.metadata) }
        let body =
            12 + (setup.resumeToken.map { $0.count + 2 } ?? 0) + mimes.reduce(0) { $0 + 1 + $1.utf8.count }
            + (metadata.map { $0.count + 3 } ?? 0) + data.count
        header(.setup, flags, stream: 0, body: body, into: &out)
        out.append(bigEndian: setup.major)
        out.append(bigEndian: setup.minor)
        out.append(bigEndian: setup.keepalive & Wire.maxU31)
        out.append(bigEndian: setup.lifetime & Wire.maxU31)
        if let token = setup.resumeToken {
            out.append(bigEndian: UInt16(token.count))
            out.append(token)
        }
        for mime in mimes {
            out.append(bigEndian: UInt8(mime.utf8.count))
            out.append(mime)
        }
        if let metadata {
            out.append(u24: metadata.count)
            out.append(metadata)
        }
        out.append(data)
    }

    /// Appends RESUME.
    public static func resume(
        token: [UInt8], lastReceivedServerPosition: UInt64, firstAvailableClientPosition: UInt64,
        into out: inout ByteBuffer
    ) {
        precondition(token.count <= 0xffff, "a resume token has at most 65,535 bytes")
        header(.resume, [], stream: 0, body: 22 + token.count, into: &out)
        out.append(bigEndian: UInt16(1))
        out.append(bigEndian: UInt16(0))
        out.append(bigEndian: UInt16(token.count))
        out.append(token)
        out.append(bigEndian: lastReceivedServerPosition & (UInt64.max >> 1))
        out.append(bigEndian: firstAvailableClientPosition & (UInt64.max >> 1))
    }

    /// Appends RESUME_OK.
    public static func resumeOK(lastReceivedClientPosition: UInt64, into out: inout ByteBuffer) {
        header(.resumeOK, [], stream: 0, body: 8, into: &out)
        out.append(bigEndian: lastReceivedClientPosition & (UInt64.max >> 1))
    }
}
