// NATSKey: a user's key – an Ed25519 key pair in the text form of the nkeys library: a prefix, 32 bytes and a CRC-16 in
// base32. https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth

import Bytes
import COpenSSL

/// A user's private key. Its bytes are erased when the last reference ends.
public final class NATSKey: Equatable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The seed of the Ed25519 key, 32 bytes. Not changed until `deinit`.
    private nonisolated(unsafe) let seed: UnsafeMutableRawBufferPointer
    /// The public key as text, beginning with U. It identifies the user and is no secret.
    public let publicKey: String

    /// The prefixes of a seed, of a user's public key, and of those of accounts and operators.
    private static let seedPrefix: UInt8 = 18 << 3
    private static let userPrefix: UInt8 = 20 << 3
    private static let size = 32

    /// - Parameter text: a user's seed: 58 characters that begin with SU.
    /// - Throws: if it is something else. The error does not contain the text.
    public init(seed text: some Sequence<UInt8>) throws(NATSError) {
        var bytes = NATSKey.decode(text) ?? []
        defer { NATSKey.erase(&bytes) }
        guard bytes.count == 2 + NATSKey.size + 2, bytes[0] & 0xF8 == NATSKey.seedPrefix else {
            throw .call(.invalid, "The NKey seed is malformed; it must have 58 characters and begin with SU.")
        }
        guard (bytes[0] & 7) << 5 | bytes[1] >> 3 == NATSKey.userPrefix, bytes[1] & 7 == 0 else {
            throw .call(.invalid, "The NKey seed is not a user's; it must begin with SU.")
        }
        guard NATSKey.checksum(bytes[..<34]) == UInt16(bytes[34]) | UInt16(bytes[35]) << 8 else {
            throw .call(.invalid, "The checksum of the NKey seed is wrong; a character may have been changed.")
        }
        seed = .allocate(byteCount: NATSKey.size, alignment: 8)
        seed.copyBytes(from: bytes[2..<34])
        publicKey = try NATSKey.publicKey(of: UnsafeRawBufferPointer(seed))
    }

    deinit {
        OPENSSL_cleanse(seed.baseAddress, seed.count)
        seed.deallocate()
    }

    /// Does not contain the seed.
    public var description: String { "(the key of \(publicKey))" }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// The signature of `nonce`, in base64url without padding.
    /// - Throws: if OpenSSL has no memory.
    public func sign(_ nonce: String) throws(NATSError) -> String {
        guard let key = NATSKey.open(UnsafeRawBufferPointer(seed)), let context = EVP_MD_CTX_new() else {
            throw NATSKey.failure
        }
        defer {
            EVP_PKEY_free(key)
            EVP_MD_CTX_free(context)
        }
        let message = Array(nonce.utf8)
        var signature = [UInt8](repeating: 0, count: 64)
        var count = signature.count
        guard EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
            EVP_DigestSign(context, &signature, &count, message, message.count) == 1, count == signature.count
        else { throw NATSKey.failure }
        return signature.withUnsafeBytes { Base64.encode($0, .url) }
    }

    private static var failure: NATSError { .call(.unavailable, "OpenSSL cannot use an Ed25519 key.") }

    private static func open(_ seed: UnsafeRawBufferPointer) -> OpaquePointer? {
        EVP_PKEY_new_raw_private_key(
            EVP_PKEY_ED25519, nil, seed.baseAddress?.assumingMemoryBound(to: UInt8.self), seed.count)
    }

    private static func publicKey(of seed: UnsafeRawBufferPointer) throws(NATSError) -> String {
        guard let key = open(seed) else { throw failure }
        defer { EVP_PKEY_free(key) }
        var bytes = [UInt8](repeating: 0, count: size)
        var count = size
        guard EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == size else { throw failure }
        bytes.insert(userPrefix, at: 0)
        let sum = checksum(bytes[...])
        return encode(bytes + [UInt8(truncatingIfNeeded: sum), UInt8(truncatingIfNeeded: sum >> 8)])
    }

    static func erase(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
    }

    public static func == (one: NATSKey, other: NATSKey) -> Bool { one.publicKey == other.publicKey }

    // MARK: Text

    /// The CRC-16 with polynomial 0x1021 and initial value 0 (XMODEM).
    static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        var sum: UInt16 = 0
        for byte in bytes {
            sum ^= UInt16(byte) << 8
            for _ in 0..<8 { sum = sum & 0x8000 != 0 ? sum << 1 ^ 0x1021 : sum << 1 }
        }
        return sum
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)

    /// Base32 without padding (RFC 4648, section 6). Nil if there is another character, the length is impossible or
    /// more than 58, or bits are left over.
    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(36)
        var bits: UInt32 = 0
        var count = 0
        var characters = 0
        for character in text {
            let value: UInt8
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
            case UInt8(ascii: "2")...UInt8(ascii: "7"): value = character - UInt8(ascii: "2") + 26
            default: return nil
            }
            characters += 1
            guard characters <= 58 else { return nil }
            bits = bits << 5 | UInt32(value)
            count += 5
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        return count < 5 && bits & (1 << UInt32(count) - 1) == 0 ? bytes : nil
    }

    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var bits: UInt32 = 0
        var count = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 5 {
                count -= 5
                text.append(alphabet[Int(bits >> UInt32(count) & 31)])
            }
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(5 - count) & 31)]) }
        return String(decoding: text, as: UTF8.self)
    }
}
