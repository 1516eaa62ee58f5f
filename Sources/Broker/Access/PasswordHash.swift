// PasswordHash: password hashes by libxcrypt's crypt(3). Hashing is deliberately slow (tens of milliseconds): never do
// it on a shard's thread.

import CCrypt
import Glibc

public enum PasswordHash {
    /// Bytes of the longest password that crypt(3) accepts. bcrypt ignores all bytes after the 72nd.
    public static let longestPassword = Int(CRYPT_MAX_PASSPHRASE_SIZE) - 1

    /// Accepted prefixes: yescrypt, gost-yescrypt, scrypt, bcrypt, sha512. Methods that are broken or too fast are
    /// rejected.
    private static let methods = ["$y$", "$gy$", "$7$", "$2b$", "$2a$", "$2y$", "$6$"]

    /// Why this is not an acceptable hash; nil if it is one.
    static func fault(of hash: String) -> String? {
        guard methods.contains(where: hash.hasPrefix), hash.utf8.count < Int(CRYPT_OUTPUT_SIZE),
            hash.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), isKnown(crypt_checksalt(hash)), isWhole(hash)
        else {
            return "not a yescrypt, scrypt, bcrypt or sha512 hash; create one with forebayd --hash-password"
        }
        return nil
    }

    /// Whether libxcrypt supports the method, even if it recommends another.
    private static func isKnown(_ verdict: Int32) -> Bool {
        verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED
    }

    /// Whether the hash is not truncated: the part after salt and cost has the length that the method produces.
    private static func isWhole(_ hash: String) -> Bool {
        if hash.hasPrefix("$2") { return hash.utf8.count == 60 }
        guard let last = hash.split(separator: "$").last else { return false }
        return last.utf8.count == (hash.hasPrefix("$6$") ? 86 : 43)
    }

    /// Whether `password` has this hash.
    static func matches(_ password: [UInt8], _ hash: String) -> Bool {
        guard !password.contains(0), password.count <= longestPassword, let made = crypt(password, hash) else {
            return false
        }
        return Digest.isSame(Array(made.utf8), Array(hash.utf8))
    }

    /// A new yescrypt hash with a random salt from the kernel; nil if the password is empty, too long or contains a
    /// NUL.
    public static func make(of password: [UInt8]) -> String? {
        guard !password.isEmpty, password.count <= longestPassword, !password.contains(0) else { return nil }
        var setting = [CChar](repeating: 0, count: Int(CRYPT_GENSALT_OUTPUT_SIZE))
        guard crypt_gensalt_rn("$y$", 0, nil, 0, &setting, Int32(setting.count)) != nil else { return nil }
        let text = setting.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        return crypt(password, text)
    }

    private static func crypt(_ password: [UInt8], _ setting: String) -> String? {
        let size = Int(fb_crypt_size())
        let data = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        defer {
            explicit_bzero(data, size)
            data.deallocate()
        }
        memset(data, 0, size)
        var phrase = password.map { CChar(bitPattern: $0) } + [0]
        defer { phrase.withUnsafeMutableBytes { explicit_bzero($0.baseAddress!, $0.count) } }
        return crypt_rn(phrase, setting, data, Int32(size)).map { String(cString: $0) }
    }
}
