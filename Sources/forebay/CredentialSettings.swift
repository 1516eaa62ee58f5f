// CredentialSettings: who the client says it is, from files and the environment. There is no option for a password or a
// token itself: everybody on the machine can read a command line.

import Client
import EventLoop
import Glibc

enum CredentialSettings {
    /// What the options say, else what stands in the URL, else what the environment says.
    static func read(_ arguments: Arguments, _ address: BrokerAddress) throws -> Credentials? {
        let user = arguments.text("user")
        let passwordFile = arguments.text("password-file")
        if let file = arguments.text("token-file") {
            guard user == nil, passwordFile == nil else {
                throw UsageError("--token-file says who you are: leave --user and --password-file out.")
            }
            return .token(try secret(in: file))
        }
        if user != nil || passwordFile != nil {
            guard let user = user ?? environment("FOREBAY_USER") else {
                throw UsageError("--password-file needs a name: give --user NAME.")
            }
            let password = try passwordFile.map { try secret(in: $0) } ?? environment("FOREBAY_PASSWORD")
            guard let password else {
                throw UsageError("--user needs a password: give --password-file FILE, or set FOREBAY_PASSWORD.")
            }
            return .password(user: user, password: password)
        }
        if let credentials = address.credentials { return credentials }
        if let token = environment("FOREBAY_TOKEN") { return .token(token) }
        guard let user = environment("FOREBAY_USER") else { return nil }
        guard let password = environment("FOREBAY_PASSWORD") else {
            throw UsageError("FOREBAY_USER is set, and FOREBAY_PASSWORD is not: set it, or give --password-file FILE.")
        }
        return .password(user: user, password: password)
    }

    private static let longest = 16 << 10

    /// The text of a file without the end of its last line.
    private static func secret(in file: String) throws -> String {
        guard var text = Machine.text(ofFile: file, limit: longest) else {
            throw UsageError("The file '\(file)' cannot be read.")
        }
        if text.hasSuffix("\r\n") || text.hasSuffix("\n") { text.removeLast() }
        guard !text.isEmpty else { throw UsageError("The file '\(file)' is empty.") }
        return text
    }

    private static func environment(_ name: String) -> String? {
        guard let value = getenv(name).map({ String(cString: $0) }), !value.isEmpty else { return nil }
        return value
    }
}
