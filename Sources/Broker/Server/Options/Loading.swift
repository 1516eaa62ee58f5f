// Loading: merges settings from the file, the environment and the command line, in ascending precedence, and records
// the origin of each. Pure, so tables can test it; ConfigurationFile.swift reads the file.

import Access
import Configuration

/// Where a setting's value came from.
enum Origin: Equatable, Sendable {
    case standard
    case file(path: String, line: Int)
    case variable(String)
    case option(String)

    var description: String {
        switch self {
        case .standard: "default"
        case .file(let path, let line): "\(path):\(line)"
        case .variable(let name): name
        case .option(let name): name
        }
    }
}

/// Options and their origins.
struct Loaded: Equatable, Sendable {
    var options = Options()
    /// By the setting's name. Settings without an entry have their default.
    var origins: [String: Origin] = [:]
    /// Suspicious settings that are not errors, each as a sentence.
    var warnings: [String] = []
    /// The first line of each element of a list in the file, by key: `users`, `jwt.keys`.
    var lines: [String: [Int]] = [:]

    func origin(_ setting: Setting) -> Origin { origins[setting.name] ?? .standard }

    /// A setting as it was written: "--listen off", "FOREBAY_LISTEN=off", "listen: off (forebayd.yaml:3)". A default is
    /// shown as if it had been written in the file, or as an option if there is no file.
    func subject(_ name: String) -> String {
        guard let setting = Setting.named(name) else { return name }
        let value = setting.line(options)
        return switch origin(setting) {
        case .standard where hasFile: "\(name): \(value) (default)"
        case .standard, .option: "\(setting.option) \(value)"
        case .variable(let variable): "\(variable)=\(value)"
        case .file(let path, let line): "\(name): \(value) (\(path):\(line))"
        }
    }

    /// How to write a value for a setting, in the place where `other`, or else the setting itself, was set.
    func written(_ name: String, _ value: String, like other: String? = nil) -> String {
        guard let setting = Setting.named(name), let place = Setting.named(other ?? name) else { return name }
        return switch origin(place) {
        case .file: "\(name): \(value)"
        case .standard where hasFile: "\(name): \(value)"
        case .variable: "\(setting.variable)=\(value)"
        case .standard, .option: setting.shape == .truth ? setting.option : "\(setting.option) \(value)"
        }
    }

    /// Whether any setting comes from a file.
    private var hasFile: Bool {
        origins.values.contains { origin in
            if case .file = origin { return true }
            return false
        }
    }

    /// An error in the access settings, with the line in the file if it is known.
    func place(of error: AccessError) -> String {
        let path = origins[String(error.place.prefix { $0 != "[" && $0 != "." })]
        let parts = error.place.split(separator: "[", maxSplits: 1)
        let number = parts.count == 2 ? Int(parts[1].prefix { $0 != "]" }) : nil
        guard let number, case .file(let path, _) = path, let lines = lines[String(parts[0])],
            lines.indices.contains(number)
        else { return error.description }
        let key = parts[1].drop { $0 != "]" }.dropFirst()
        return "\(path):\(lines[number]): \(parts[0])\(key): \(error.fault)"
    }
}

/// The content of a configuration file.
struct ConfigurationText: Equatable, Sendable {
    var path: String
    var bytes: [UInt8]
}

/// Merges settings. Collects all errors, so that they can be reported together.
struct Loader {
    /// Maximum number of errors that are reported.
    static let mostFaults = 20
    static let prefix = "FOREBAY_"

    private(set) var loaded = Loaded()
    private var faults: [String] = []
    private let table: [Setting]
    /// Throws the reason if a file cannot be read.
    private let checkFile: (String) throws(ValueFault) -> Void

    /// Merges all sources.
    /// - Parameters:
    ///   - environment: variables. Only those that begin with FOREBAY_ and are not empty count.
    ///   - checkFile: throws the reason if a file that a setting names cannot be read.
    static func load(
        _ text: ConfigurationText?, environment: [(name: String, value: String)],
        settings: [(name: String, value: String)], table: [Setting] = Setting.all,
        checkFile: @escaping (String) throws(ValueFault) -> Void
    ) throws(UsageError) -> Loaded {
        var loader = Loader(table, checkFile)
        if let text { loader.take(text) }
        loader.take(environment: environment)
        loader.take(options: settings)
        return try loader.finish()
    }

    private init(_ table: [Setting], _ checkFile: @escaping (String) throws(ValueFault) -> Void) {
        self.table = table
        self.checkFile = checkFile
    }

    private func finish() throws(UsageError) -> Loaded {
        if !faults.isEmpty { throw UsageError(Array(faults.prefix(Loader.mostFaults))) }
        let faults = loaded.options.faults(loaded.subject)
        if !faults.isEmpty { throw UsageError(faults) }
        return loaded
    }

    // The file

    private mutating func take(_ text: ConfigurationText) {
        do throws(Fault) {
            guard let root = try Document.parse(text.bytes) else { return }
            guard case .mapping(let entries) = root.content else {
                throw Fault(root.place, "this is not a list of settings; write KEY: VALUE, one per line")
            }
            for entry in entries { take(entry, of: text.path) }
        } catch {
            faults.append("\(text.path):\(error)")
        }
    }

    private mutating func take(_ entry: Node.Entry, of path: String) {
        do throws(Fault) {
            guard let setting = table.first(where: { $0.name == entry.key }) else {
                let meant = suggestion(for: entry.key, among: table.map(\.name))
                throw Fault(entry.place, "\(shown(entry.key)) is not a known key\(meant)")
            }
            try read(setting, entry.value, folder: path)
            loaded.origins[setting.name] = .file(path: path, line: entry.place.line)
        } catch {
            faults.append("\(path):\(error)")
        }
    }

    private mutating func read(_ setting: Setting, _ node: Node, folder path: String) throws(Fault) {
        switch setting.reading {
        case .node(let read):
            try read(node, &loaded.options)
            note(node, setting.name)
        case .text:
            let text = try node.text(of: setting.name)
            do throws(ValueFault) {
                try set(setting, [setting.isPath || setting.isDirectory ? Loader.beside(path, text) : text])
            } catch {
                throw Fault(node.place, "\(setting.name): \(Loader.described(setting, text)) \(error.words)")
            }
        case .texts(let read):
            guard case .list(let most) = setting.shape else { return }
            var texts: [String] = []
            for element in try node.list(of: setting.name, most: most) {
                texts.append(try element.text(of: setting.name))
                do throws(ValueFault) {
                    // Checked one by one, to report the place of the invalid one.
                    var scratch = loaded.options
                    try read([texts.last!], &scratch)
                } catch {
                    throw Fault(
                        element.place, "\(setting.name): \(Loader.described(setting, texts.last!)) \(error.words)")
                }
            }
            do throws(ValueFault) {
                try set(setting, texts)
            } catch {
                throw Fault(node.place, "\(setting.name): this list \(error.words)")
            }
        }
    }

    /// Notes the lines of the elements of a list, and of nested lists.
    private mutating func note(_ node: Node, _ name: String) {
        guard let elements = try? node.list(of: name, most: .max) else { return }
        loaded.lines[name, default: []] += elements.map(\.place.line)
        for element in elements {
            guard case .mapping(let entries) = element.content else { continue }
            for entry in entries {
                if case .list(let nodes) = entry.value.content, case .mapping? = nodes.first?.content {
                    note(entry.value, "\(name).\(entry.key)")
                }
            }
        }
    }

    /// Resolves a relative path in a file against the file's folder.
    static func beside(_ file: String, _ path: String) -> String {
        guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
        return file[...slash] + path
    }

    // The environment and the command line

    private mutating func take(environment: [(name: String, value: String)]) {
        for (name, value) in environment where name.hasPrefix(Loader.prefix) && !value.isEmpty {
            guard let setting = table.first(where: { $0.variable == name }) else {
                warnOfVariable(name)
                continue
            }
            if setting.isRecords {
                loaded.warnings.append("\(name) is ignored: set \(setting.name) in the configuration file")
                continue
            }
            var texts = [value]
            if case .list = setting.shape { texts = value.split(separator: ",").map { trimmed($0) } }
            take(setting, texts, from: .variable(name), subject: "\(name)=\(Loader.described(setting, value))")
        }
    }

    /// Other programs use variables with this prefix, such as `forebay` and orchestrators that announce services. So
    /// an unknown name is no error. It produces a warning if it resembles a known one.
    private mutating func warnOfVariable(_ name: String) {
        if name == ConfigurationFile.variable { return }
        let word = name.dropFirst(Loader.prefix.count).lowercased().split(separator: "_").joined(separator: "-")
        guard let meant = nearest(to: word, among: table.map(\.name)),
            let setting = table.first(where: { $0.name == meant })
        else { return }
        loaded.warnings.append("unknown variable \(name); did you mean \(setting.variable)?")
    }

    private mutating func take(options: [(name: String, value: String)]) {
        for setting in table {
            let texts = options.filter { $0.name == setting.name }.map(\.value)
            if texts.isEmpty { continue }
            let described = texts.map { Loader.described(setting, $0) }.joined(separator: ", ")
            take(setting, texts, from: .option(setting.option), subject: "\(setting.option) \(described)")
        }
    }

    private mutating func take(_ setting: Setting, _ texts: [String], from origin: Origin, subject: String) {
        do throws(ValueFault) {
            if case .list(let most) = setting.shape, texts.count > most {
                throw ValueFault("has \(texts.count) elements; write at most \(most)")
            }
            try set(setting, texts)
            loaded.origins[setting.name] = origin
        } catch {
            faults.append("\(subject) \(error.words)")
        }
    }

    private mutating func set(_ setting: Setting, _ texts: [String]) throws(ValueFault) {
        switch setting.reading {
        case .text(let read):
            if setting.isPath { try checkFile(texts[0]) }
            try read(texts[0], &loaded.options)
        case .texts(let read): try read(texts, &loaded.options)
        case .node: preconditionFailure("\(setting.name) is read from the file only")
        }
    }

    /// A value made safe for a message.
    private static func described(_ setting: Setting, _ value: String) -> String {
        setting.isSecret ? "(not shown)" : shown(value)
    }
}

private func trimmed(_ text: Substring) -> String {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let first = text.firstIndex(where: { !isBlank($0) }), let last = text.lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(text[first...last])
}
