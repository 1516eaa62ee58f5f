// NATSCredentials: how a client authenticates itself, and the files that contain keys.

import Bytes
import ForebayWire

/// A client's credentials. Its descriptions do not contain secrets.
public enum NATSCredentials: Equatable, Sendable, CustomStringConvertible, CustomReflectable {
    case none
    case password(user: String, password: String)
    case token(String)
    case key(NATSKey)
    /// A user's JWT, and the key for which it was issued.
    case jwt(String, NATSKey)

    /// The most bytes in a file with keys.
    public static let maxFile = 64 << 10

    /// Whether the server's nonce must be signed.
    var needsNonce: Bool {
        switch self {
        case .none, .password, .token: false
        case .key, .jwt: true
        }
    }

    /// "(user alice)"; never a secret.
    public var description: String {
        switch self {
        case .none: "(none)"
        case .password(let user, _): "(password of \(user))"
        case .token: "(token)"
        case .key(let key): "\(key)"
        case .jwt(_, let key): "(JWT for \(key.publicKey))"
        }
    }

    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Reads the contents of a file with a user's seed: on a line of its own, as written by `nk -gen user`, possibly
    /// decorated as in credentials files.
    /// - Throws: if there is no valid seed. The error does not contain anything of the file.
    public init(seedFile: [UInt8]) throws(NATSError) {
        try NATSCredentials.check(seedFile)
        for line in NATSCredentials.lines(seedFile) where line.first == UInt8(ascii: "S") {
            self = .key(try NATSKey(seed: line))
            return
        }
        throw .call(.invalid, "The file has no NKey seed; a line must begin with SU.")
    }

    /// Reads the contents of a credentials file, as written by `nsc generate creds`: a JWT and a seed, each between a
    /// line that begins with `-----BEGIN` and names it, and a line that begins with dashes.
    /// - Throws: if one is missing, present twice, or malformed. The error does not contain anything of the file.
    public init(credentialsFile: [UInt8]) throws(NATSError) {
        try NATSCredentials.check(credentialsFile)
        var (jwt, seed): (ArraySlice<UInt8>?, ArraySlice<UInt8>?)
        var block: Block?
        for line in NATSCredentials.lines(credentialsFile) {
            if line.starts(with: "---".utf8) {
                block = block == nil ? Block(line) : nil
                continue
            }
            guard let name = block, !line.isEmpty else { continue }
            guard (name == .jwt ? jwt : seed) == nil else {
                throw .call(.invalid, "The credentials file has more than one line or block for the \(name.rawValue).")
            }
            if name == .jwt { jwt = line } else { seed = line }
        }
        guard let jwt, jwt.allSatisfy(NATSCredentials.isOfJWT), jwt.count(where: { $0 == UInt8(ascii: ".") }) == 2
        else {
            throw .call(.invalid, "The credentials file has no valid block NATS USER JWT.")
        }
        guard let seed else { throw .call(.invalid, "The credentials file has no block USER NKEY SEED.") }
        self = .jwt(String(decoding: jwt, as: UTF8.self), try NATSKey(seed: seed))
    }

    private enum Block: String {
        case jwt = "JWT"
        case seed

        init?(_ line: ArraySlice<UInt8>) {
            let text = String(decoding: line, as: UTF8.self)
            guard text.contains("BEGIN") else { return nil }
            if text.contains("JWT") { self = .jwt } else if text.contains("SEED") { self = .seed } else { return nil }
        }
    }

    private static func check(_ file: [UInt8]) throws(NATSError) {
        guard file.count <= maxFile else {
            throw .call(.tooLarge, "The file has more than \(maxFile) bytes; is it the right one?")
        }
    }

    /// The lines without white space at their ends.
    private static func lines(_ file: [UInt8]) -> [ArraySlice<UInt8>] {
        file.split(separator: 0x0A).map { line in
            var line = line
            while let first = line.first, isSpace(first) { line = line.dropFirst() }
            while let last = line.last, isSpace(last) { line = line.dropLast() }
            return line
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

    private static func isOfJWT(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
            UInt8(ascii: "="):
            true
        default: false
        }
    }

    /// Sets the members of CONNECT.
    /// - Throws: if the nonce to sign is missing, or OpenSSL has no memory. The connection ends.
    func apply(to request: inout NATSConnect, nonce: String?) throws(NATSError) {
        switch self {
        case .none: return
        case .password(let user, let password):
            request.user = user
            request.password = password
        case .token(let token): request.token = token
        case .key(let key), .jwt(_, let key):
            guard let nonce, !nonce.isEmpty else {
                throw .connection(
                    .unsupported, "The NATS server does not accept keys: its INFO has no nonce to sign.")
            }
            do throws(NATSError) {
                request.signature = try key.sign(nonce)
            } catch { throw .connection(error.word, error.sentence) }
            if case .jwt(let jwt, _) = self { request.jwt = jwt } else { request.nkey = key.publicKey }
        }
    }
}
