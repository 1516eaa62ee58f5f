// Credentials: HTTP's `authorization`, base64, JWTs and their JSON, and which users they authenticate.

import Bytes
import HTTP2

@testable import Access
@testable import Core

func fuzzCredentials(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let kind = input.number(below: 3)
    let text = input.rest
    switch kind {
    case 0: readAuthorization(text.asText)
    case 1: readBase64(Array(text))
    default: readBase64(Array(text.asText.utf8))
    }
}

private func readAuthorization(_ text: String) {
    do throws(Refusal) {
        let credential = try Credential(authorization: text)
        mustHold("\(credential)" == "(secret)", "a secret is revealed")
        guard text.utf8.count <= Credential.longest else { return report("credentials are too long") }
        switch credential {
        case .password(let user, let password):
            let again = "Basic \(base64(Array(user.utf8) + [UInt8(ascii: ":")] + password, .standard))"
            mustHold((try? Credential(authorization: again)) == credential, "\(text) is another user")
            mustHold(!user.contains(":"), "a name with a colon")
        case .token(let token):
            mustHold(text.utf8.suffix(token.count).elementsEqual(token), "\(text) is another token")
        }
    } catch {
        mustHold(error.word == .unauthenticated, "\(error) is the wrong refusal")
    }
}

/// What can be decoded can be encoded, in exactly one way.
private func readBase64(_ text: [UInt8]) {
    for alphabet in [Base64.Alphabet.standard, .url] {
        if let bytes = Base64.decode(text, alphabet) {
            mustHold(Array(base64(bytes, alphabet).utf8) == text, "\(text) is encoded differently")
        }
        let written = base64(text, alphabet)
        mustHold(Base64.decode(Array(written.utf8), alphabet) == text, "\(text) is decoded differently")
    }
}

func base64(_ bytes: [UInt8], _ alphabet: Base64.Alphabet) -> String {
    let last = alphabet == .standard ? "+/" : "-_"
    let digits = Array(("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last).utf8)
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = Array(bytes[start..<min(start + 3, bytes.count)])
        let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
        for index in 0...group.count { text.append(digits[bits >> (18 - 6 * index) & 63]) }
        if alphabet == .standard { text += Array(repeating: UInt8(ascii: "="), count: 3 - group.count) }
    }
    return String(decoding: text, as: UTF8.self)
}

// JWTs

private let secret = Array("0123456789abcdef0123456789abcdef".utf8)

private let verifier: JWTVerifier? = {
    let settings = JWTKeySettings(id: "main", algorithm: .hs256, material: secret)
    let pem = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQbRhXT8Vmee8PjhWjv7pKU20gd85
        O6heSPIkd3l5MNEJQFfGsBQR6VHp7uFIgL7RPo7xpeA8ZYMRJkAHcNjCRA==
        -----END PUBLIC KEY-----
        """
    let elliptic = JWTKeySettings(id: "elliptic", algorithm: .es256, material: Array(pem.utf8))
    guard let key = try? JWTKey(settings, place: "key"), let other = try? JWTKey(elliptic, place: "key") else {
        return nil
    }
    return JWTVerifier(keys: [key, other], audience: "forebay", issuer: nil)
}()

/// Either a complete token; or a header, a line feed and claims, which are signed here.
func fuzzJWT(_ bytes: UnsafeRawBufferPointer) {
    guard let verifier else { return report("the keys cannot be read") }
    var input = FuzzInput(bytes)
    let kind = input.number(below: 3)
    let wall: Int64 = 1_000_000_000_000
    guard kind > 0 else {
        let isTaken = (try? verifier.verify(Array(input.rest), wall: wall)) != nil
        return mustHold(!isTaken, "an unsigned token is accepted")
    }
    let header = kind == 1 ? Array(#"{"alg":"HS256"}"#.utf8) : Array(input.part(before: 10))
    let signed = base64(header, .url) + "." + base64(Array(input.rest), .url)
    let signature = Digest.hmac(Array(signed.utf8), key: secret)
    do throws(JWTFault) {
        let claims = try verifier.verify(Array("\(signed).\(base64(signature, .url))".utf8), wall: wall)
        mustHold(claims.expires > wall, "an expired token is accepted")
        mustHold(!input.rest.contains(0) && !header.contains(0), "invalid JSON is accepted")
        mustHold(UserSettings.isName(claims.user), "\(claims.user) is not a user name")
        mustHold(claims.key.algorithm == .hs256, "another key")
    } catch {
        if case .expired(let user) = error { mustHold(!user.isEmpty, "\(error)") }
    }
    if let other = try? verifier.verify(Array("\(signed).\(base64(signature.reversed(), .url))".utf8), wall: wall),
        signature.reversed() != signature
    {
        report("\(other.user) is accepted with a wrong signature")
    }
}
