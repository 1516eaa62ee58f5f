// Valid tokens, and every way in which one can be invalid.

import Core
import Testing

@testable import Access

/// Seconds since 1970 in nanoseconds.
func wall(_ seconds: Int64) -> Int64 { seconds * 1_000_000_000 }

func base64url(_ bytes: some Collection<UInt8>) -> String {
    let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var text = ""
    var bits = 0
    var count = 0
    for byte in bytes {
        bits = bits << 8 | Int(byte)
        count += 8
        while count >= 6 {
            count -= 6
            text.unicodeScalars.append(Unicode.Scalar(digits[bits >> count & 63]))
        }
        bits &= 1 << count - 1
    }
    if count > 0 { text.unicodeScalars.append(Unicode.Scalar(digits[bits << (6 - count) & 63])) }
    return text
}

@Suite struct JWTTests {
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)

    static func key(_ algorithm: JWTAlgorithm, id: String = "main") throws -> JWTKey {
        let material = algorithm == .hs256 ? secret : Array(Tokens.keys[algorithm.rawValue]!.utf8)
        return try JWTKey(JWTKeySettings(id: id, algorithm: algorithm, material: material), place: "key")
    }

    static func verifier(
        _ algorithms: JWTAlgorithm..., audience: String? = nil, issuer: String? = nil
    ) throws -> JWTVerifier {
        JWTVerifier(
            keys: try algorithms.map { try key($0, id: "\($0.rawValue)") }, audience: audience, issuer: issuer)
    }

    /// A token signed with HS256.
    static func token(
        _ claims: String, header: String = #"{"alg":"HS256","typ":"JWT"}"#, secret: [UInt8] = secret
    ) -> [UInt8] {
        let signed = base64url(header.utf8) + "." + base64url(claims.utf8)
        return Array("\(signed).\(base64url(Digest.hmac(Array(signed.utf8), key: secret)))".utf8)
    }

    static func outcome(_ verifier: JWTVerifier, _ token: [UInt8], at seconds: Int64 = 1000) -> String {
        do throws(JWTFault) {
            return try verifier.verify(token, wall: wall(seconds)).user
        } catch {
            return "\(error)"
        }
    }

    @Test(arguments: [JWTAlgorithm.rs256, .es256, .edDSA]) func signaturesOfEachAlgorithm(_ algorithm: JWTAlgorithm)
        throws
    {
        let token = Array(Tokens.signed[algorithm]!.utf8)
        let verifier = try JWTTests.verifier(algorithm)
        let claims = try verifier.verify(token, wall: wall(1000))
        #expect(claims.user == "alice" && claims.expires == wall(4_102_444_800))
        #expect(claims.permissions?.allow(.publish, "orders.eu") == true)
        #expect(claims.permissions?.allow(.subscribe, "orders.eu") == false)
        // No byte of the token may be changed: this tries the middle of each part and the end of the signature.
        let dots = token.indices.filter { token[$0] == UInt8(ascii: ".") }
        for place in [dots[0] / 2, (dots[0] + dots[1]) / 2, (dots[1] + token.count) / 2, token.count - 3] {
            var bad = token
            bad[place] = bad[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(JWTTests.outcome(verifier, bad) == "wrong", "\(place)")
        }
        // The token is refused with the keys of other algorithms.
        for other in JWTAlgorithm.allCases where other != algorithm {
            #expect(JWTTests.outcome(try JWTTests.verifier(other), token) == "wrong")
        }
    }

    static let good = #"{"sub":"alice","exp":2000}"#

    @Test func theKeyHasItsAlgorithm() throws {
        let rsa = try JWTTests.verifier(.rs256)
        let both = try JWTTests.verifier(.rs256, .hs256)
        // Tokens signed by HMAC with the public key as the secret.
        let pem = Array(Tokens.keys["RS256"]!.utf8)
        for secret in [pem, pem + [10]] {
            for header in [#"{"alg":"HS256"}"#, #"{"alg":"RS256"}"#, #"{"alg":"HS256","kid":"RS256"}"#] {
                let token = JWTTests.token(JWTTests.good, header: header, secret: secret)
                #expect(JWTTests.outcome(rsa, token) == "wrong")
                #expect(JWTTests.outcome(both, token) == "wrong")
            }
        }
        #expect(JWTTests.outcome(both, JWTTests.token(JWTTests.good)) == "alice")
        #expect(JWTTests.outcome(both, Array(Tokens.signed[.rs256]!.utf8)) == "alice")
    }

    @Test(arguments: [
        #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":""}"#, #"{"alg":null}"#, #"{"alg":["HS256"]}"#, #"{}"#, #"[]"#,
        #"{"alg":"hs256"}"#, #"{"alg":"HS512"}"#, #"{"alg":"HS256","alg":"HS256"}"#, #"{"alg":"HS256","kid":"other"}"#,
        #"{"alg":"HS256","kid":7}"#, #"{"alg":"HS256","crit":["exp"]}"#, #"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
        "{\"alg\":\"HS256\"", "",
    ]) func headersThatAreRefused(_ header: String) throws {
        let verifier = try JWTTests.verifier(.hs256)
        #expect(JWTTests.outcome(verifier, JWTTests.token(JWTTests.good, header: header)) == "wrong")
        // The same header, without a signature.
        let bare = Array("\(base64url(header.utf8)).\(base64url(JWTTests.good.utf8)).".utf8)
        #expect(JWTTests.outcome(verifier, bare) == "wrong")
    }

    /// A part of a signature is invalid, and so is one with trailing data.
    @Test func signaturesAreComparedWhole() throws {
        let verifier = try JWTTests.verifier(.hs256)
        let signed = base64url(#"{"alg":"HS256"}"#.utf8) + "." + base64url(JWTTests.good.utf8)
        let signature = Digest.hmac(Array(signed.utf8), key: JWTTests.secret)
        for count in [0, 1, 16, 31, 32, 33] {
            let part = Array((signature + [0]).prefix(count))
            let outcome = JWTTests.outcome(verifier, Array("\(signed).\(base64url(part))".utf8))
            #expect(outcome == (count == signature.count ? "alice" : "wrong"), "\(count) bytes")
        }
    }

    @Test func keysThatAreNamed() throws {
        let other = Array("fedcba9876543210fedcba9876543210".utf8)
        let second = try JWTKey(JWTKeySettings(id: "b", algorithm: .hs256, material: other), place: "key")
        let verifier = JWTVerifier(
            keys: [try JWTTests.key(.hs256, id: "a"), second], audience: nil, issuer: nil)
        for (header, secret, expected) in [
            (#"{"alg":"HS256","kid":"a"}"#, JWTTests.secret, "alice"), (#"{"alg":"HS256","kid":"b"}"#, other, "alice"),
            // A token that names one key and is signed with another is refused, although that key is known.
            (#"{"alg":"HS256","kid":"b"}"#, JWTTests.secret, "wrong"), (#"{"alg":"HS256","kid":"a"}"#, other, "wrong"),
            (#"{"alg":"HS256","kid":"c"}"#, JWTTests.secret, "wrong"),
            (#"{"alg":"HS256"}"#, JWTTests.secret, "alice"), (#"{"alg":"HS256"}"#, other, "alice"),
        ] {
            let token = JWTTests.token(JWTTests.good, header: header, secret: secret)
            #expect(JWTTests.outcome(verifier, token) == expected, "\(header)")
        }
    }

    @Test func timesAreKept() throws {
        let verifier = try JWTTests.verifier(.hs256)
        for (claims, seconds, expected) in [
            (#""exp":2000"#, 1999, "alice"), (#""exp":2000"#, 2000, "expired(user: \"alice\")"),
            (#""exp":1999.5"#, 1999, "alice"),
            (#""exp":-1"#, 1, "expired(user: \"alice\")"), (#""exp":1e300"#, 1999, "alice"),
            (#""exp":"2000""#, 1, "wrong"),
            (#""iat":1"#, 1, "wrong"), (#""exp":2000,"nbf":1000"#, 1000, "alice"),
            // Within the tolerance for clock differences.
            (#""exp":2000,"nbf":1000"#, 995, "alice"), (#""exp":2000,"nbf":1000"#, 994, "notYetValid"),
            (#""exp":2000,"nbf":"x""#, 1000, "wrong"), (#""exp":2000,"nbf":1e300"#, 1000, "notYetValid"),
        ] as [(String, Int64, String)] {
            let token = JWTTests.token("{\"sub\":\"alice\",\(claims)}")
            #expect(JWTTests.outcome(verifier, token, at: seconds) == expected, "\(claims)")
        }
    }

    @Test func audienceAndIssuer() throws {
        let any = try JWTTests.verifier(.hs256)
        let ours = try JWTTests.verifier(.hs256, audience: "forebay", issuer: "login")
        for (claims, anywhere, here) in [
            (#""iss":"login","aud":"forebay""#, "wrong", "alice"),
            (#""iss":"login","aud":["x","forebay"]"#, "wrong", "alice"),
            (#""iss":"login","aud":"other""#, "wrong", "wrong"), (#""iss":"login","aud":[]"#, "wrong", "wrong"),
            (#""iss":"login","aud":7"#, "wrong", "wrong"), (#""iss":"login""#, "alice", "wrong"),
            (#""iss":"other""#, "alice", "wrong"), (#""aud":"forebay""#, "wrong", "wrong"),
            (#""iss":["login"],"aud":"forebay""#, "wrong", "wrong"),
        ] {
            let token = JWTTests.token("{\"sub\":\"alice\",\"exp\":2000,\(claims)}")
            #expect(JWTTests.outcome(any, token) == anywhere, "\(claims)")
            #expect(JWTTests.outcome(ours, token) == here, "\(claims)")
        }
    }

    @Test(arguments: [
        #"{"exp":2000}"#, #"{"sub":"","exp":2000}"#, #"{"sub":7,"exp":2000}"#, #"{"sub":"a:b","exp":2000}"#,
        #"{"sub":"a\nb","exp":2000}"#, #"{"sub":"a\u0000b","exp":2000}"#, #"{"sub":"alice","sub":"root","exp":2000}"#,
        #"{"sub":"alice","exp":2000,"forebay":[]}"#, #"{"sub":"alice","exp":2000,"forebay":{"publish":"a"}}"#,
        #"{"sub":"alice","exp":2000,"forebay":{"publish":["a..b"]}}"#,
        #"{"sub":"alice","exp":2000,"forebay":{"block":[1]}}"#,
        "{\"sub\":\"alice\",\"exp\":2000\0}", "not json", "",
    ]) func claimsThatAreRefused(_ claims: String) throws {
        #expect(JWTTests.outcome(try JWTTests.verifier(.hs256), JWTTests.token(claims)) == "wrong")
    }

    @Test func textsThatAreNoTokens() throws {
        let verifier = try JWTTests.verifier(.hs256)
        let good = String(decoding: JWTTests.token(JWTTests.good), as: UTF8.self)
        for text in [
            "", ".", "..", "...", good + ".", good + "=", " " + good, good + "\n", String(good.dropLast()), "a.b.c",
        ] {
            #expect(JWTTests.outcome(verifier, Array(text.utf8)) == "wrong", "\(text)")
        }
        let long = JWTTests.token(#"{"sub":"alice","exp":2000,"x":""# + String(repeating: "x", count: 1 << 20) + "\"}")
        #expect(JWTTests.outcome(verifier, long) == "wrong")
        // The maximum depth of JSON.
        let deep = JWTTests.token(String(repeating: "[", count: 5000) + String(repeating: "]", count: 1000))
        #expect(JWTTests.outcome(verifier, deep) == "wrong")
    }

    @Test(arguments: [
        (JWTAlgorithm.rs256, "ES256", "RS256 takes an RSA key"),
        (.rs256, "small RSA", "RS256 takes an RSA key of 2048"),
        (.es256, "RS256", "ES256 takes a key on the curve P-256"), (.es256, "P-384", "ES256 takes a key on the curve"),
        (.edDSA, "ES256", "EdDSA takes an Ed25519 key"),
        (.hs256, "RS256", "HS256 takes a secret, but this is a PEM key"),
    ]) func keysOfAnotherKindAreRefused(_ algorithm: JWTAlgorithm, _ name: String, _ fault: String) {
        let settings = JWTKeySettings(id: "a", algorithm: algorithm, material: Array(Tokens.keys[name]!.utf8))
        let error = #expect(throws: AccessError.self) { try JWTKey(settings, place: "key") }
        #expect(error?.fault.hasPrefix(fault) == true, "\(error as Any)")
    }

    @Test func materialThatIsNoKeyIsRefused() {
        for (algorithm, text) in [
            (JWTAlgorithm.rs256, ""), (.es256, "nonsense"), (.edDSA, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END"),
            (.hs256, "too short"),
        ] {
            let settings = JWTKeySettings(id: "a", algorithm: algorithm, material: Array(text.utf8))
            let error = #expect(throws: AccessError.self) { try JWTKey(settings, place: "key") }
            // The key material is not revealed.
            #expect(text.isEmpty || error?.description.contains(text) == false)
        }
    }
}
