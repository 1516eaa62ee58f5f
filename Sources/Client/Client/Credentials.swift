// Credentials: a client's identity, sent in SETUP over RSocket and with every call over gRPC.

import Bytes
import RSocket

/// A secret, whose descriptions reveal nothing.
public enum Credentials: Equatable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name has at most 128 bytes and no colon, the password at most 511.
    case password(user: String, password: String)
    /// A token from the broker's configuration, or a JWT: ASCII without spaces.
    case token(String)

    public var description: String { "(secret)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Maximum bytes of a token; the broker rejects longer ones.
    static let longestToken = 8 << 10

    /// - Throws: `.badCredentials` with a sentence, if no broker would accept them.
    func check() throws(ClientError) {
        switch self {
        case .password(let user, let password):
            guard (1...128).contains(user.utf8.count), !user.utf8.contains(UInt8(ascii: ":")),
                user.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
            else {
                throw ClientError(
                    .badCredentials, "A user name must have 1 to 128 bytes, without colons or control characters.")
            }
            guard (1...511).contains(password.utf8.count), !password.utf8.contains(0) else {
                throw ClientError(.badCredentials, "A password must have 1 to 511 bytes, without NUL bytes.")
            }
        case .token(let token):
            guard (1...Self.longestToken).contains(token.utf8.count),
                token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else {
                throw ClientError(
                    .badCredentials, "A token must have 1 to \(Self.longestToken) ASCII characters, without spaces.")
            }
        }
    }

    /// Appends an entry of SETUP's metadata.
    func append(into out: inout ByteBuffer) {
        switch self {
        case .password(let user, let password):
            AuthenticationMetadata.appendSimple(user: user, password: Array(password.utf8), into: &out)
        case .token(let token): AuthenticationMetadata.appendBearer(Array(token.utf8), into: &out)
        }
    }

    /// The value of `authorization`: RFC 7617, RFC 6750.
    var header: String {
        switch self {
        case .password(let user, let password):
            "Basic \(Array("\(user):\(password)".utf8).withUnsafeBytes { Base64.encode($0) })"
        case .token(let token): "Bearer \(token)"
        }
    }
}
