// SystemError: a failure in the kernel or the resolver, as a sentence.

import Glibc

/// A failed system call. `description` is a sentence for the user at the terminal.
public struct SystemError: Error, CustomStringConvertible, Sendable {
    /// The `errno` value; 0 if the failure did not come from the kernel (for example, a name that does not resolve).
    public var code: Int32
    /// What was attempted: "cannot listen on 127.0.0.1:7690".
    public var attempt: String
    /// Why it failed: "Address already in use".
    public var cause: String

    public init(_ attempt: String, code: Int32) {
        self.code = code
        self.attempt = attempt
        self.cause = SystemError.text(of: code)
    }

    public init(_ attempt: String, cause: String) {
        self.code = 0
        self.attempt = attempt
        self.cause = cause
    }

    public var description: String { "\(attempt): \(cause)" }

    /// The system's text for an `errno` value.
    public static func text(of code: Int32) -> String {
        String(cString: strerror(code))
    }
}
