// Contexts: named brokers, each a JSON object in its own file, so that --url and credentials need not be repeated.
// Contexts contain no secrets: they name the file or the command that provides one.
//
//     $XDG_CONFIG_HOME/forebay/contexts/NAME.json     {"url":"rsockets://broker","user":"ann","password-file":"/…"}
//     $XDG_CONFIG_HOME/forebay/context                the name of the current one

import Bytes
import EventLoop
import Glibc

/// A named broker and how to connect to it: options of the command line with their values; "" for a flag.
struct Context {
    /// Options that identify the client.
    static let identity = ["user", "password-file", "password-command", "token-file", "token-command"]
    /// Options that a context may contain.
    static let options = ["url", "ca", "cert", "key", "insecure"] + identity
    /// Options whose values are paths.
    private static let files = ["ca", "cert", "key", "password-file", "token-file"]

    let name: String
    private(set) var values: [(option: String, value: String)]

    /// A broker as described by a command line.
    init(_ name: String, _ arguments: Arguments) throws(UsageError) {
        try Self.check(name)
        self.name = name
        values = Self.options.compactMap { option in arguments.text(option).map { (option, $0) } }
        for index in values.indices where Self.files.contains(values[index].option) {
            values[index].value = Self.absolute(values[index].value)
        }
        guard let url = arguments.text("url") else { throw UsageError("The broker's URL is missing; give --url URL.") }
        // An '@' occurs only after a password.
        if url.contains("@") {
            throw UsageError(
                "Passwords are not saved; remove the password from --url, and give --user and --password-file.")
        }
        for file in values where Self.files.contains(file.option) && access(file.value, F_OK) != 0 {
            throw UsageError("The file '\(file.value)' given with --\(file.option) cannot be found.")
        }
    }

    /// Reads the content of a context's file; nil if that is not a context.
    init?(_ name: String, _ text: String) {
        guard case .object(let members)? = JSON(text) else { return nil }
        self.name = name
        values = members.compactMap { member in member.value.text.map { (member.key, $0) } }
        guard values.count == members.count, values.allSatisfy({ Self.options.contains($0.option) }) else { return nil }
    }

    var json: JSON { .object(values.map { ($0.option, .string($0.value)) }) }
    var url: String { values.first { $0.option == "url" }?.value ?? "" }

    /// The path must remain valid when the command runs in another folder.
    private static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
        defer { free(folder) }
        return String(cString: folder) + "/" + path
    }

    static func check(_ name: String) throws(UsageError) {
        let isValid = name.utf8.allSatisfy {
            (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || [45, 46, 95].contains($0)
        }
        guard isValid, !name.isEmpty, name.utf8.count <= 100, !name.hasPrefix(".") else {
            throw UsageError("'\(name)' is not a valid context name; use letters, digits, '-', '_' and '.'.")
        }
    }
}

/// The contexts of the user who runs the program.
struct ContextStore {
    private let folder: String

    /// - Throws: an error message if there is no folder for them.
    init() throws(UsageError) {
        if let base = environment("XDG_CONFIG_HOME"), base.hasPrefix("/") {
            folder = base + "/forebay"
        } else if let home = environment("HOME") {
            folder = home + "/.config/forebay"
        } else {
            throw UsageError("Contexts are stored in the home folder, but HOME is not set.")
        }
    }

    private func path(_ name: String) -> String { "\(folder)/contexts/\(name).json" }

    /// The name of the current context, if there is one.
    var current: String? {
        let text = Machine.text(ofFile: folder + "/context")?.split(separator: "\n").first.map(String.init)
        return text.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// All names, sorted.
    var names: [String] {
        guard let directory = opendir(folder + "/contexts") else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let file = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if file.hasSuffix(".json"), !file.hasPrefix(".") { names.append(String(file.dropLast(5))) }
        }
        return names.sorted()
    }

    func read(_ name: String) throws(UsageError) -> Context {
        try Context.check(name)
        guard let text = Machine.text(ofFile: path(name)) else {
            let known = names.isEmpty ? "There are no contexts yet" : "The contexts are \(Arguments.list(names, "and"))"
            throw UsageError("There is no context '\(name)'. \(known); 'forebay context add NAME --url URL' adds one.")
        }
        guard let context = Context(name, text) else {
            throw UsageError(
                "'\(path(name))' is not a valid context; create it again with 'forebay context add \(name)'.")
        }
        return context
    }

    func write(_ context: Context) throws(UsageError) {
        try replace(path(context.name), with: context.json.encoded + "\n")
    }

    /// - Parameter name: the context to use; nil for none.
    func use(_ name: String?) throws(UsageError) {
        try replace(folder + "/context", with: name.map { $0 + "\n" } ?? "")
    }

    /// Removes a context, even if its file is malformed.
    func remove(_ name: String) throws(UsageError) {
        if !names.contains(name) { _ = try read(name) }
        guard unlink(path(name)) == 0 else { throw cannotWrite(path(name)) }
        if current == name { try use(nil) }
    }

    /// Replaces a file atomically, and makes it readable only by this user.
    private func replace(_ path: String, with text: String) throws(UsageError) {
        try makeFolder(folder + "/contexts")
        let new = "\(path).\(getpid()).new"
        let fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard fd >= 0 else { throw cannotWrite(path) }
        var text = text
        let isWritten = text.withUTF8 { Glibc.write(fd, $0.baseAddress, $0.count) == $0.count }
        let isClosed = close(fd) == 0
        guard isWritten, isClosed, rename(new, path) == 0 else {
            let error = cannotWrite(path)
            unlink(new)
            throw error
        }
    }

    private func makeFolder(_ path: String) throws(UsageError) {
        var made = ""
        for part in path.split(separator: "/") {
            made += "/" + part
            if mkdir(made, 0o700) != 0, errno != EEXIST { throw cannotWrite(made) }
        }
    }

    private func cannotWrite(_ path: String) -> UsageError {
        UsageError("'\(path)' cannot be written: \(SystemError.text(of: errno)).")
    }
}

/// `forebay context add|use|list|remove`.
struct ContextCommand {
    private let store: ContextStore
    private let arguments: Arguments

    init(_ arguments: Arguments) throws(UsageError) {
        store = try ContextStore()
        self.arguments = arguments
    }

    /// Returns the text to print.
    func run(_ command: Command) throws -> String {
        switch command {
        case .contextAdd:
            let name = arguments.operands[0]
            let isFirst = store.names.isEmpty
            let isNew = !store.names.contains(name)
            // A context that no command could use is not saved.
            _ = try Program.reachable(arguments)
            try store.write(try Context(name, arguments))
            if isFirst { try store.use(name) }
            return described(name, isFirst ? "saved, and is now the default" : isNew ? "saved" : "replaced")
        case .contextUse:
            let name = arguments.operands[0]
            _ = try store.read(name)
            try store.use(name)
            if environment("FOREBAY_URL") != nil { notify("FOREBAY_URL is set and overrides every context.") }
            return described(name, "now the default")
        case .contextRemove:
            let name = arguments.operands[0]
            let wasUsed = store.current == name
            try store.remove(name)
            return described(name, wasUsed ? "removed; there is no default now" : "removed")
        default: return list()
        }
    }

    private func described(_ name: String, _ what: String) -> String {
        arguments.has("json") ? JSON.object([("name", .string(name))]).encoded + "\n" : "\(name) is \(what)\n"
    }

    private func list() -> String {
        let current = store.current
        var rows: [JSON] = []
        for name in store.names {
            do throws(UsageError) {
                rows.append(row(try store.read(name), isUsed: name == current))
            } catch {
                notify(error.message)
            }
        }
        if arguments.has("json") { return rows.map { $0.encoded + "\n" }.joined() }
        if rows.isEmpty { return "There are no contexts; 'forebay context add NAME --url URL' adds one.\n" }
        return Table.render(Table.contexts, rows)
    }

    /// Everything that is saved, as JSON; in a table, all options except address and user are in one column.
    private func row(_ context: Context, isUsed: Bool) -> JSON {
        let head = [("name", JSON.string(context.name)), ("used", JSON.bool(isUsed))]
        if arguments.has("json") { return .object(head + context.values.map { ($0.option, .string($0.value)) }) }
        let columns = ["url", "user"]
        let options = context.values.filter { !columns.contains($0.option) }
        let words = options.map { $0.value.isEmpty ? "--\($0.option)" : "--\($0.option) \($0.value)" }
        return .object(
            head + context.values.filter { columns.contains($0.option) }.map { ($0.option, .string($0.value)) }
                + (words.isEmpty ? [] : [("options", .string(words.joined(separator: " ")))]))
    }
}

/// An environment variable that is not empty.
func environment(_ name: String) -> String? {
    guard let value = getenv(name).map({ String(cString: $0) }), !value.isEmpty else { return nil }
    return value
}
