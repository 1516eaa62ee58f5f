// Credentials as they arrive: in RSocket's SETUP, or in the `authorization` header of an HTTP request.

import Bytes
import RSocket

extension Credential {
    /// The most bytes that the credentials of one request may have.
    public static let longest = 8 << 10

    /// Reads an `authorization` header: `Basic` (RFC 7617) or `Bearer` (RFC 6750).
    init(authorization text: String) throws(Refusal) {
        let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
        guard parts.count == 2, text.utf8.count <= Credential.longest else { throw Credential.unreadable }
        let value = Substring(parts[1].drop { $0 == " " }).utf8
        switch parts[0].lowercased() {
        case "bearer":
            guard !value.isEmpty, value.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw Credential.unreadable }
            self = .token(Array(value))
        case "basic":
            guard let bytes = Base64.decode(value, .standard), let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
            else { throw Credential.unreadable }
            self = try Credential.password(bytes[..<colon], bytes[(colon + 1)...])
        default:
            throw Refusal(.unauthenticated, "The authorization scheme is not supported; use Basic or Bearer.")
        }
    }

    /// Reads SETUP's metadata; nil if it has no credentials.
    init?(_ setup: Setup) throws(Refusal) {
        guard let metadata = setup.content.metadata else { return nil }
        var entry: UnsafeRawBufferPointer?
        switch setup.metadataMime.lowercased() {
        case MimeType.authentication: entry = metadata
        case MimeType.compositeMetadata: entry = try Credential.entry(of: metadata)
        default: break
        }
        guard let entry else { return nil }
        guard entry.count <= Credential.longest, let content = AuthenticationMetadata(entry) else {
            throw Credential.unreadable
        }
        switch content {
        case .simple(let user, let password): self = try Credential.password(user, password)
        case .bearer(let token): self = .token(Array(token))
        }
    }

    private static func entry(of metadata: UnsafeRawBufferPointer) throws(Refusal) -> UnsafeRawBufferPointer? {
        var entries = CompositeMetadata.Iterator(metadata)
        var found: UnsafeRawBufferPointer?
        do throws(RSocketError) {
            while let entry = try entries.next() {
                guard entry.isAuthentication else { continue }
                guard found == nil else { throw .init(code: .invalid, sentence: "", scope: .connection) }
                found = entry.bytes
            }
        } catch {
            throw unreadable
        }
        return found
    }

    private static func password(
        _ user: some Sequence<UInt8>, _ password: some Sequence<UInt8>
    ) throws(Refusal) -> Credential {
        guard let name = String(validating: Array(user), as: UTF8.self) else { throw unreadable }
        return .password(user: name, Array(password))
    }

    private static var unreadable: Refusal {
        Refusal(
            .unauthenticated,
            "The credentials are malformed; send a name and a password, or a token, of at most \(longest) bytes.")
    }
}

/// Whether two texts are equal, in a time that does not reveal where they differ.
func isSameSecret(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    var difference: UInt8 = 0
    for (x, y) in zip(a.utf8, b.utf8) { difference |= x ^ y }
    return difference == 0
}
