// Keys and the files that contain them. The expected values come from the nkeys library for Python.

import Testing

@testable import NATS

/// The seed with the bytes 0 to 31, its public key, and a signature.
private let seed = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
private let publicKey = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"
private let jwt = "eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiJ4In0.c2ln-_nature"

private func key(_ text: String) throws -> NATSKey { try NATSKey(seed: text.utf8) }

@Suite struct NATSKeyTests {
    @Test func aSeedHasThisKeyAndTheseSignatures() throws {
        let first = try key(seed)
        #expect(first.publicKey == publicKey)
        #expect(
            try first.sign("PXoWU7zWAMt75FY")
                == "bnxg5G8aOV2LQdSE_lcM9clxm_fbTTZxsqQ1EpTNgJXmH6z5ezesd49kXfuNhoAqw_DmEtsGcNsJdug9wMuRDQ")
        let second = try key("SUAP76HR5LR5ZVOOY7ALTMVLUSOZND4IQF5HG3DFLZLVASKCHM2C2JVDZA")
        #expect(second.publicKey == "UBXHA2PNQNM3CPIZOVEKJRXVA53NKI7T7ARSF4PSZILUPOUQK26YT6IH")
        #expect(
            try second.sign("")
                == "7LEQ8V7AwzEZDCW_7jQ4TZ0O8bD9VYkIOpOrsWxA-oWaiWmZ6R5rdDt59g5E9oeWzN6z9dd4EAapovixhLZcAQ")
        #expect(
            try second.sign("nonce")
                == "rZI7_6Vbz5g9qpGAUIAtIRQaRwzjlSmXwBwDOTp00qx4b8cSD-_TV9WfSXLV49mPmG0naZdyqEh66593ql5tAw")
    }

    @Test func malformedSeedsAreRefused() {
        let account = "SAAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4HYMHI"
        for text in ["", "S", publicKey, account, seed.lowercased(), seed + "A", String(seed.dropLast()), seed + "="] {
            #expect(throws: NATSError.self) { try key(text) }
        }
        // Any other character makes the checksum wrong, or leaves a bit over.
        for index in seed.indices {
            var text = seed
            text.replaceSubrange(index...index, with: seed[index] == "B" ? "C" : "B")
            #expect {
                _ = try key(text)
            } throws: {
                guard let error = $0 as? NATSError else { return false }
                return error.word == .invalid && error.scope == .call && !error.sentence.contains(text.dropFirst(3))
            }
        }
    }

    @Test func base32IsStrictAndReversible() {
        var random = SystemRandomNumberGenerator()
        for count in 0...36 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            #expect(NATSKey.decode(NATSKey.encode(bytes).utf8) == bytes)
        }
        // RFC 4648, section 10, without padding.
        #expect(NATSKey.encode(Array("foobar".utf8)) == "MZXW6YTBOI")
        for text in ["A", "MZ=", "MY1", "my", "AAA", "AB"] { #expect(NATSKey.decode(text.utf8) == nil) }
    }

    /// The check value of CRC-16/XMODEM.
    @Test func theChecksumIsTheStandardOne() {
        #expect(NATSKey.checksum(Array("123456789".utf8)[...]) == 0x31C3)
    }
}

@Suite struct NATSCredentialsTests {
    private func file(_ jwt: String, _ seed: String, end: String = "\n") -> [UInt8] {
        let lines = [
            "-----BEGIN NATS USER JWT-----", jwt, "------END NATS USER JWT------", "",
            "************************* IMPORTANT *************************",
            "NKEY Seed printed below can be used to sign and prove identity.", "",
            "-----BEGIN USER NKEY SEED-----", seed, "------END USER NKEY SEED------", "",
        ]
        return Array(lines.joined(separator: end).utf8)
    }

    @Test(arguments: ["\n", "\r\n", "\n\n", " \n\t"]) func aCredentialsFileIsRead(end: String) throws {
        guard case .jwt(let token, let key) = try NATSCredentials(credentialsFile: file(jwt, seed, end: end)) else {
            Issue.record("no JWT")
            return
        }
        #expect(token == jwt && key.publicKey == publicKey)
    }

    @Test func malformedCredentialsFilesAreRefused() {
        let whole = file(jwt, seed)
        for bytes in [
            [], whole + whole, file("", seed), file(jwt, ""), file("a.b", seed), file("a.b.c d", seed),
            file("a.b.\u{1}", seed), file(jwt, publicKey), file(jwt + "\nX", seed), Array(seed.utf8),
            Array(whole.dropFirst(5)), Array(repeating: 0x20, count: NATSCredentials.maxFile + 1), [0xFF, 0x2D],
        ] {
            #expect {
                _ = try NATSCredentials(credentialsFile: bytes)
            } throws: {
                guard let error = $0 as? NATSError else { return false }
                return !error.sentence.contains(seed) && !error.sentence.contains(jwt)
            }
        }
    }

    @Test func aSeedFileIsRead() throws {
        for text in [seed, "\n \(seed) \r\n", "# comment\n\(seed)\n", "-----BEGIN USER NKEY SEED-----\n\(seed)\n---"] {
            guard case .key(let key) = try NATSCredentials(seedFile: Array(text.utf8)) else { throw Malformed() }
            #expect(key.publicKey == publicKey)
        }
        for text in ["", "x", publicKey, "SU", String(repeating: "\n", count: NATSCredentials.maxFile) + seed] {
            #expect(throws: NATSError.self) { try NATSCredentials(seedFile: Array(text.utf8)) }
        }
    }

    private struct Malformed: Error {}

    @Test func descriptionsHaveNoSecrets() throws {
        let all: [NATSCredentials] = [
            .none, .password(user: "alice", password: "swordfish"), .token("swordfish"), .key(try key(seed)),
            .jwt("swordfish", try key(seed)),
        ]
        for credentials in all {
            var dumped = ""
            dump(credentials, to: &dumped)
            var options = NATSOptions(name: "n", version: "v")
            options.credentials = credentials
            for shown in ["\(credentials)", String(reflecting: credentials), dumped, "\(options)"] {
                #expect(!shown.contains("swordfish") && !shown.contains(seed.dropFirst(4)))
            }
        }
    }
}
