// JWTKey: a key that verifies JWTs with exactly one algorithm, using OpenSSL. The key's type is checked against its
// algorithm when the key is read, so no token can cause a key to be used for anything else (RFC 8725, 3.1).

import COpenSSL

/// Immutable, so any thread may verify with it.
public final class JWTKey: @unchecked Sendable {
    // Unchecked because of the pointer: OpenSSL allows several threads to verify with one key.
    public let id: String
    public let algorithm: JWTAlgorithm
    /// Identifies the key without revealing anything about it: a hash of its id, algorithm and material.
    public let fingerprint: String
    private let secret: [UInt8]
    private let key: OpaquePointer?

    /// Minimum length of a secret in bytes: the size of the hash (RFC 7518, 3.2).
    static let shortestSecret = 32
    /// Size of an RSA key in bits: the minimum is from RFC 7518, 3.3; longer keys than the maximum are too slow.
    static let bits: ClosedRange<Int32> = 2048...8192

    public init(_ settings: JWTKeySettings, place: String) throws(AccessError) {
        guard (1...128).contains(settings.id.utf8.count) else {
            throw AccessError("\(place).id", "an id must have 1 to 128 bytes")
        }
        id = settings.id
        algorithm = settings.algorithm
        let label = Array("\(settings.id)\n\(settings.algorithm.rawValue)\n".utf8)
        fingerprint = Digest.hex(Digest.sha256(label + settings.material))
        guard settings.algorithm != .hs256 else {
            secret = JWTKey.withoutLineEnd(settings.material)
            key = nil
            guard secret.count >= JWTKey.shortestSecret else {
                throw AccessError(
                    place, "the secret has \(secret.count) bytes; HS256 needs \(JWTKey.shortestSecret) or more")
            }
            // If a public key were accepted as the secret, anyone who has that key could sign tokens.
            guard !secret.starts(with: Array("-----BEGIN".utf8)) else {
                throw AccessError(place, "HS256 takes a secret, but this is a PEM key; set that key's algorithm")
            }
            return
        }
        secret = []
        key = try JWTKey.read(settings, place)
    }

    deinit { EVP_PKEY_free(key) }

    private static func withoutLineEnd(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        return bytes
    }

    private static func read(_ settings: JWTKeySettings, _ place: String) throws(AccessError) -> OpaquePointer {
        let bio = BIO_new_mem_buf(settings.material, Int32(clamping: settings.material.count))
        defer { BIO_free(bio) }
        guard let key = PEM_read_bio_PUBKEY(bio, nil, nil, nil) else {
            ERR_clear_error()
            throw AccessError(place, "the file contains no public key in PEM format (BEGIN PUBLIC KEY)")
        }
        if let fault = fault(of: key, settings.algorithm) {
            EVP_PKEY_free(key)
            throw AccessError(place, fault)
        }
        return key
    }

    private static func fault(of key: OpaquePointer, _ algorithm: JWTAlgorithm) -> String? {
        switch algorithm {
        case .hs256: return "HS256 takes a secret"
        case .rs256:
            guard EVP_PKEY_is_a(key, "RSA") == 1, bits.contains(EVP_PKEY_get_bits(key)) else {
                return "RS256 takes an RSA key of \(bits.lowerBound) to \(bits.upperBound) bits"
            }
        case .es256:
            var name = [CChar](repeating: 0, count: 80)
            guard EVP_PKEY_is_a(key, "EC") == 1, EVP_PKEY_get_group_name(key, &name, name.count, nil) == 1,
                name.withUnsafeBufferPointer({ String(cString: $0.baseAddress!) }) == "prime256v1"
            else { return "ES256 takes a key on the curve P-256" }
        case .edDSA:
            guard EVP_PKEY_is_a(key, "ED25519") == 1 else { return "EdDSA takes an Ed25519 key" }
        }
        return nil
    }

    /// Whether `signature` is a signature of `bytes` by this key.
    func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        switch algorithm {
        case .hs256: Digest.isSame(Digest.hmac(bytes, key: secret), signature)
        case .rs256: verify(signature, bytes, EVP_sha256())
        case .es256: JWTKey.asDER(signature).map { verify($0, bytes, EVP_sha256()) } ?? false
        case .edDSA: signature.count == 64 && verify(signature, bytes, nil)
        }
    }

    private func verify(_ signature: [UInt8], _ bytes: [UInt8], _ digest: OpaquePointer?) -> Bool {
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, digest, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, bytes, bytes.count) == 1
    }

    /// Converts a signature of two 32-byte numbers (RFC 7518, 3.4) to the form that OpenSSL expects.
    private static func asDER(_ signature: [UInt8]) -> [UInt8]? {
        guard signature.count == 64, let pair = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(pair) }
        let r = BN_bin2bn(Array(signature[..<32]), 32, nil)
        let s = BN_bin2bn(Array(signature[32...]), 32, nil)
        guard ECDSA_SIG_set0(pair, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var place: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(pair, &place)
        defer { CRYPTO_free(place, nil, 0) }
        guard count > 0, let place else { return nil }
        return Array(UnsafeBufferPointer(start: place, count: Int(count)))
    }
}
