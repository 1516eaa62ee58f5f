// JWT: signed tokens in compact form (RFC 7519, RFC 7515), verified as RFC 8725 recommends: each key has one algorithm,
// and the token's `alg` must match it. `none` is not supported; tokens that require an extension or are for another
// audience are rejected.
//
//     base64url(header) . base64url(claims) . base64url(signature)
//
// The claims are not parsed until the signature has been verified.

import Bytes
import Core
import JSONParsing

/// The claims of a valid token.
struct JWTClaims {
    /// `sub`.
    var user: String
    /// `exp`, in nanoseconds since 1970.
    var expires: Int64
    /// `forebay`: permissions in the token itself; nil if it has none.
    var permissions: Permissions?
    /// The key that signed the token.
    var key: JWTKey
}

/// Why a token is rejected.
enum JWTFault: Error, Equatable {
    /// The token is not a JWT, or not one that is accepted here.
    case wrong
    /// The token was valid for this user but has expired.
    case expired(user: String)
    case notYetValid
}

struct JWTVerifier: Sendable {
    private let keys: [JWTKey]
    private let audience: String?
    private let issuer: String?

    /// How far the issuer's clock may be ahead of ours when `nbf` is checked, in nanoseconds.
    static let leeway: Int64 = 5_000_000_000

    init(keys: [JWTKey], audience: String?, issuer: String?) {
        self.keys = keys
        self.audience = audience
        self.issuer = issuer
    }

    /// - Parameter wall: nanoseconds since 1970.
    func verify(_ token: [UInt8], wall: Int64) throws(JWTFault) -> JWTClaims {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard !keys.isEmpty, token.count <= Credential.longest, parts.count == 3,
            let header = Base64.decode(parts[0], .url), let body = Base64.decode(parts[1], .url),
            let signature = Base64.decode(parts[2], .url)
        else { throw .wrong }
        let signed = Array(token[..<parts[1].endIndex])
        guard let key = try candidates(header).first(where: { $0.verifies(signature, of: signed) }) else {
            throw .wrong
        }
        return try read(body, key, wall: wall)
    }

    /// The keys that the token may be signed with. The header's `alg` must match the key's algorithm.
    private func candidates(_ header: [UInt8]) throws(JWTFault) -> [JWTKey] {
        guard let header = header.withUnsafeBytes({ JSONDocument($0) }), let algorithm = header.root["alg"]?.string,
            header.root["crit"] == nil
        else { throw .wrong }
        let name = header.root["kid"]
        let id = name?.string
        if name != nil, id == nil { throw .wrong }
        return keys.filter { (id == nil || $0.id == id) && $0.algorithm.rawValue == algorithm }
    }

    private func read(_ body: [UInt8], _ key: JWTKey, wall: Int64) throws(JWTFault) -> JWTClaims {
        guard let document = body.withUnsafeBytes({ JSONDocument($0) }),
            let user = document.root["sub"]?.string, UserSettings.isName(user),
            let expires = JWTVerifier.time(document.root["exp"])
        else { throw .wrong }
        let claims = document.root
        if let expected = issuer, claims["iss"]?.string != expected { throw .wrong }
        guard isMeant(claims["aud"]) else { throw .wrong }
        guard wall < expires else { throw .expired(user: user) }
        if let claim = claims["nbf"] {
            guard let begins = JWTVerifier.time(claim) else { throw .wrong }
            guard wall >= begins - JWTVerifier.leeway else { throw .notYetValid }
        }
        var permissions: Permissions?
        if let claim = claims["forebay"] { permissions = try JWTVerifier.permissions(claim) }
        return JWTClaims(user: user, expires: expires, permissions: permissions, key: key)
    }

    /// Whether the audience claim permits the token (RFC 7519, 4.1.3): a token with an audience is rejected unless we
    /// are in it, even if we have no name configured.
    private func isMeant(_ claim: JSONValue?) -> Bool {
        guard let claim else { return audience == nil }
        guard let audience else { return false }
        return claim.string == audience || claim.strings?.contains(audience) == true
    }

    /// Converts seconds since 1970 to nanoseconds, clamped to their range.
    private static func time(_ claim: JSONValue?) -> Int64? {
        guard let seconds = claim?.number, seconds.isFinite else { return nil }
        let bound = 9_000_000_000.0
        return Int64(Swift.max(0, Swift.min(seconds, bound)) * 1e9)
    }

    private static func permissions(_ claim: JSONValue) throws(JWTFault) -> Permissions {
        var settings = PermissionSettings()
        guard claim.isObject else { throw .wrong }
        for (name, field) in [
            ("publish", \PermissionSettings.publish), ("subscribe", \.subscribe), ("control", \.control),
            ("block", \.block),
        ] {
            guard let value = claim[name] else { continue }
            guard let list = value.strings else { throw .wrong }
            settings[keyPath: field] = list
        }
        do throws(AccessError) {
            return try settings.permissions(of: "forebay.")
        } catch {
            throw .wrong
        }
    }
}
