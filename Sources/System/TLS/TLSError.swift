// TLSError: why TLS cannot be used, as a sentence that says what to do.

import COpenSSL
import EventLoop
import Glibc

/// A file that cannot be used.
public struct TLSError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Code: Equatable, Sendable {
        /// A file is missing, or this process may not read it.
        case unreadable
        /// A file has no usable certificate.
        case badCertificate
        /// A file has no usable private key.
        case badKey
        /// The key does not belong to the certificate.
        case mismatch
        /// A file has no CA certificates.
        case badAuthority
        /// OpenSSL has no memory or cannot be used.
        case system
    }

    public var code: Code
    public var description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Checks that a file can be read at all.
    static func check(_ path: String, _ what: String) throws(TLSError) {
        let fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard fd >= 0 else {
            throw TLSError(.unreadable, "cannot read the \(what) \(path): \(SystemError.text(of: errno))")
        }
        defer { close(fd) }
        var status = stat()
        if fstat(fd, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            throw TLSError(.unreadable, "cannot read the \(what) \(path): it is a directory")
        }
    }

    /// Returns OpenSSL's first reason for the current failure, and clears the thread's error queue.
    static func reason() -> String? {
        let error = ERR_peek_error()
        defer { ERR_clear_error() }
        return error == 0 ? nil : ERR_reason_error_string(error).map { String(cString: $0) }
    }
}
