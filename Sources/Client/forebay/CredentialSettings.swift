// CredentialSettings: the client's credentials, from files and the environment. No option takes a password or a token
// itself, because all users of the machine can read a command line.

import Client
import EventLoop
import Glibc

enum CredentialSettings {
    /// The credentials given by options.
    static func read(_ arguments: Arguments) throws -> Credentials? {
        let user = arguments.text("user")
        let password = try secret("password", arguments)
        if let token = try secret("token", arguments) {
            guard user == nil, password == nil else {
                throw UsageError("A token cannot be combined with --user or a password; remove them.")
            }
            return .token(token)
        }
        guard user != nil || password != nil else { return nil }
        guard let user = user ?? environment("FOREBAY_USER") else {
            throw UsageError("A password needs a user name; give --user NAME.")
        }
        guard let password = password ?? environment("FOREBAY_PASSWORD") else {
            throw UsageError("--user needs a password; give --password-file FILE, or set FOREBAY_PASSWORD.")
        }
        return .password(user: user, password: password)
    }

    /// The credentials in the URL, otherwise those in the environment.
    static func read(_ address: BrokerAddress) throws -> Credentials? {
        if let credentials = address.credentials { return credentials }
        if let token = environment("FOREBAY_TOKEN") { return .token(token) }
        guard let user = environment("FOREBAY_USER") else { return nil }
        guard let password = environment("FOREBAY_PASSWORD") else {
            throw UsageError("FOREBAY_USER is set, but FOREBAY_PASSWORD is not; set it, or give --password-file FILE.")
        }
        return .password(user: user, password: password)
    }

    private static let longest = 16 << 10

    /// The content of --WHAT-file or the output of --WHAT-command, without the last line's end; nil if neither is
    /// given.
    private static func secret(_ what: String, _ arguments: Arguments) throws -> String? {
        let file = arguments.text("\(what)-file")
        let command = arguments.text("\(what)-command")
        if let file {
            if command != nil { throw UsageError("--\(what)-file and --\(what)-command are mutually exclusive.") }
            guard let text = Machine.text(ofFile: file, limit: longest) else {
                throw UsageError("The file '\(file)' cannot be read.")
            }
            return try checked(text, "The file '\(file)' is empty.")
        }
        guard let command else { return nil }
        guard let text = output(of: command) else { throw UsageError("The command '\(command)' failed.") }
        return try checked(text, "The command '\(command)' printed nothing.")
    }

    /// The output of a shell command; nil if it fails.
    private static func output(of command: String) -> String? {
        guard let pipe = popen(command, "re") else { return nil }
        var bytes = [UInt8](repeating: 0, count: longest)
        let count = fread(&bytes, 1, bytes.count, pipe)
        return pclose(pipe) == 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    private static func checked(_ text: String, _ empty: String) throws -> String {
        var text = text
        if text.hasSuffix("\r\n") || text.hasSuffix("\n") { text.removeLast() }
        guard !text.isEmpty else { throw UsageError(empty) }
        return text
    }

}
