// PasswordHash: passwords by crypt(3) of libxcrypt. Slow on purpose, tens of milliseconds: never on a shard's thread.

import CCrypt
import Glibc

public enum PasswordHash {
    /// Bytes of the longest password that crypt(3) takes. bcrypt takes no notice of more than 72.
    public static let longestPassword = Int(CRYPT_MAX_PASSPHRASE_SIZE) - 1

    /// What hashes may begin with: yescrypt, its Russian sister, scrypt, bcrypt, sha512. Those that are broken, or too
    /// quick, are not taken.
    private static let methods = ["$y$", "$gy$", "$7$", "$2b$", "$2a$", "$2y$", "$6$"]

    /// What is wrong with a hash; nil if it is one.
    static func fault(of hash: String) -> String? {
        guard methods.contains(where: hash.hasPrefix), hash.utf8.count < Int(CRYPT_OUTPUT_SIZE),
            hash.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), isKnown(crypt_checksalt(hash)), isWhole(hash)
        else {
            return "it is no hash of yescrypt, scrypt, bcrypt or sha512; make one with forebayd --hash-password"
        }
        return nil
    }

    /// libxcrypt can do it, though it may recommend another.
    private static func isKnown(_ verdict: Int32) -> Bool {
        verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED
    }

    /// It is not cut off: behind salt and cost stands as much as the method makes.
    private static func isWhole(_ hash: String) -> Bool {
        if hash.hasPrefix("$2") { return hash.utf8.count == 60 }
        guard let last = hash.split(separator: "$").last else { return false }
        return last.utf8.count == (hash.hasPrefix("$6$") ? 86 : 43)
    }

    /// Whether `password` has that hash.
    static func matches(_ password: [UInt8], _ hash: String) -> Bool {
        guard !password.contains(0), password.count <= longestPassword, let made = crypt(password, hash) else {
            return false
        }
        return Digest.isSame(Array(made.utf8), Array(hash.utf8))
    }

    /// A new hash by yescrypt, with a salt of the kernel's randomness; nil for a password that is empty, too long or
    /// has a NUL.
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
