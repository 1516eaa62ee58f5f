// AuthenticationMetadata: credentials in SETUP, read and written (RSocket extensions, "Authentication").
//
//     0x80 length:u16 user password        simple
//     0x81 token                           bearer

import Bytes

/// `message/x.rsocket.authentication.v0`.
public enum AuthenticationMetadata {
    /// The pointers point into the metadata that was parsed.
    case simple(user: UnsafeRawBufferPointer, password: UnsafeRawBufferPointer)
    case bearer(UnsafeRawBufferPointer)

    /// Nil if it is malformed or of another type.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        switch bytes.first {
        case 0x80: break
        case 0x81:
            self = .bearer(bytes.slice(1..<bytes.count))
            return
        default: return nil
        }
        guard bytes.count >= 3 else { return nil }
        let end = 3 + Int(bytes.bigEndian(at: 1, as: UInt16.self))
        guard bytes.count >= end else { return nil }
        self = .simple(user: bytes.slice(3..<end), password: bytes.slice(end..<bytes.count))
    }

    /// Appends a user name and a password as an entry of composite metadata; the name has at most 65,535 bytes.
    public static func appendSimple(user: String, password: [UInt8], into out: inout ByteBuffer) {
        precondition(user.utf8.count <= 0xFFFF, "a user's name has at most 65,535 bytes")
        CompositeMetadata.appendHead(
            id: MimeType.authenticationID, count: 3 + user.utf8.count + password.count, into: &out)
        out.append(bigEndian: UInt8(0x80))
        out.append(bigEndian: UInt16(user.utf8.count))
        out.append(user)
        out.append(password)
    }

    /// Appends a token as an entry of composite metadata.
    public static func appendBearer(_ token: [UInt8], into out: inout ByteBuffer) {
        CompositeMetadata.appendHead(id: MimeType.authenticationID, count: 1 + token.count, into: &out)
        out.append(bigEndian: UInt8(0x81))
        out.append(token)
    }
}
