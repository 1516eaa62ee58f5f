// Options: one table describes a command; parsing and `-h` both read it.

/// What kind of value an option takes.
enum ValueKind: Equatable {
    /// No value: the option is present or not.
    case flag
    case number(ClosedRange<UInt64>)
    /// A number, or one of these words.
    case numberOr([String], ClosedRange<UInt64>)
    /// A decimal number.
    case decimal(ClosedRange<Double>)
    case choice([String])
    case text
    /// A text; the option may be given several times.
    case texts
}

struct OptionSpec {
    let name: String
    var short: Character?
    /// The name of the value in `-h`.
    var value: String = ""
    let kind: ValueKind
    let help: String
}

struct CommandSpec {
    let id: Command
    /// The words that make up its name: `["topic", "info"]`.
    let path: [String]
    /// Operands as shown in `-h`; those in brackets are optional.
    var operands: [String] = []
    let summary: String
    /// Paragraphs for `-h`.
    var details: [String] = []
    var options: [OptionSpec] = []
    var examples: [(line: String, says: String)] = []

    var requiredOperands: Int { operands.count { !$0.hasPrefix("[") } }
}

/// A mistake on the command line, with a message; the exit code is 2.
struct UsageError: Error, Equatable {
    let message: String
    init(_ message: String) { self.message = message }
}

/// A parsed and validated command line.
struct Arguments {
    let command: CommandSpec?
    private(set) var values: [String: String] = [:]
    /// The values of options that may be given several times.
    private(set) var lists: [String: [String]] = [:]
    private(set) var operands: [String] = []
    private(set) var wantsHelp = false
    private(set) var wantsVersion = false
    /// The first word of a two-word command if only `-h` was given with it.
    private(set) var helpTopic: String?

    func has(_ name: String) -> Bool { values[name] != nil || lists[name] != nil }
    func text(_ name: String) -> String? { values[name] }
    /// Adds the options of a context that the command line does not give.
    mutating func add(_ context: Context) {
        let isIdentified = Context.identity.contains { has($0) }
        for (option, value) in context.values where !has(option) {
            if isIdentified, Context.identity.contains(option) { continue }
            values[option] = value
        }
    }

    func texts(_ name: String) -> [String] { lists[name] ?? [] }
    /// A value that the table declares as a number, and that has therefore been validated.
    func number(_ name: String) -> UInt64? { values[name].flatMap { UInt64($0) } }
    func decimal(_ name: String) -> Double? { values[name].flatMap { Double($0) } }

    /// Parses `words`, the command line without the program's name.
    init(_ words: [String], commands: [CommandSpec], common: [OptionSpec]) throws(UsageError) {
        var rest = words[...]
        var early: [String] = []
        // Common options may precede the command.
        while let word = rest.first, word.hasPrefix("-"), word != "-", word != "--" {
            early.append(word)
            rest = rest.dropFirst()
            if let spec = Self.find(word, in: common), spec.kind != .flag, !word.contains("="),
                let value = rest.first
            {
                early.append(value)
                rest = rest.dropFirst()
            }
        }
        let (command, after) = try Self.command(rest, commands: commands, early: early, helpTopic: &helpTopic)
        self.command = command
        let known = (command?.options ?? []) + common
        try parse(early + Array(after), known: known, mostOperands: command?.operands.count ?? 0)
        guard !wantsHelp, !wantsVersion else { return }
        guard let command else {
            throw UsageError(
                "The command is missing; use \(Self.list(Self.firstWords(commands))). 'forebay -h' explains them.")
        }
        try checkOperands(of: command)
    }

    private static func firstWords(_ commands: [CommandSpec]) -> [String] {
        commands.reduce(into: []) { if !$0.contains($1.path[0]) { $0.append($1.path[0]) } }
    }

    private static func command(
        _ words: ArraySlice<String>, commands: [CommandSpec], early: [String], helpTopic: inout String?
    ) throws(UsageError) -> (CommandSpec?, ArraySlice<String>) {
        guard let first = words.first else { return (nil, words) }
        if first == "help" {
            // `forebay help sub` is `forebay sub -h`.
            return try command(
                words.dropFirst() + ["-h"], commands: commands, early: early, helpTopic: &helpTopic)
        }
        if first.hasPrefix("-") { return (nil, words) }
        let same = commands.filter { $0.path[0] == first }
        if same.isEmpty {
            let names = firstWords(commands)
            throw UsageError(
                "There is no command '\(first)'\(guess(first, among: names)). The commands are \(list(names, "and")).")
        }
        if let single = same.first(where: { $0.path.count == 1 }) { return (single, words.dropFirst()) }
        let seconds = same.map { $0.path[1] }
        let second = words.dropFirst().first
        if let exact = same.first(where: { $0.path[1] == second }) { return (exact, words.dropFirst(2)) }
        if (early + words).contains(where: { $0 == "-h" || $0 == "--help" }) {
            helpTopic = first
            return (nil, ["-h"])
        }
        guard let second else {
            throw UsageError("The subcommand is missing; after 'forebay \(first)', use \(list(seconds)).")
        }
        let near = guess(second, among: seconds)
        throw UsageError(
            "There is no command '\(first) \(second)'\(near). The subcommands are \(list(seconds, "and")).")
    }

    private static func find(_ word: String, in specs: [OptionSpec]) -> OptionSpec? {
        if word.hasPrefix("--") {
            let name = word.dropFirst(2).prefix { $0 != "=" }
            return specs.first { $0.name == name }
        }
        guard word.count == 2, let letter = word.last else { return nil }
        return specs.first { $0.short == letter }
    }

    private mutating func parse(
        _ words: [String], known: [OptionSpec], mostOperands: Int
    ) throws(UsageError) {
        var index = 0
        var onlyOperands = false
        while index < words.count {
            let word = words[index]
            index += 1
            if onlyOperands || !word.hasPrefix("-") || word == "-" {
                operands.append(word)
                continue
            }
            if word == "--" {
                onlyOperands = true
                continue
            }
            guard let spec = Self.find(word, in: known) else {
                let name = String(word.prefix { $0 != "=" })
                let names = known.map { "--" + $0.name }
                let near = Self.guess(name, among: names)
                // This may be an operand that begins with a dash, such as a negative temperature.
                let dash =
                    operands.count > 0 && operands.count < mostOperands && near.isEmpty
                    ? " Write -- before an operand that begins with a dash." : ""
                throw UsageError(
                    "There is no option '\(name)'\(near).\(dash) The options are \(Self.list(names, "and")).")
            }
            let equals = word.hasPrefix("--") ? word.firstIndex(of: "=") : nil
            let inline = equals.map { String(word[word.index(after: $0)...]) }
            if spec.kind == .flag {
                guard inline == nil else { throw UsageError("--\(spec.name) takes no value.") }
                switch spec.name {
                case "help": wantsHelp = true
                case "version": wantsVersion = true
                default: values[spec.name] = ""
                }
                continue
            }
            var value = inline
            if value == nil, index < words.count {
                value = words[index]
                index += 1
            }
            guard let value else { throw UsageError("--\(spec.name) needs a value: \(Self.expected(spec)).") }
            guard Self.accepts(spec.kind, value) else {
                throw UsageError("--\(spec.name) takes \(Self.expected(spec)), not '\(value)'.")
            }
            if spec.kind == .texts {
                lists[spec.name, default: []].append(value)
                continue
            }
            if let before = values[spec.name], before != value {
                throw UsageError("--\(spec.name) is given twice, as '\(before)' and as '\(value)'.")
            }
            values[spec.name] = value
        }
    }

    private func checkOperands(of command: CommandSpec) throws(UsageError) {
        let name = command.path.joined(separator: " ")
        if operands.count < command.requiredOperands {
            let missing = command.operands[operands.count]
            throw UsageError("'forebay \(name)' needs \(missing); see 'forebay \(name) -h'.")
        }
        if operands.count > command.operands.count {
            let extra = operands[command.operands.count]
            throw UsageError(
                "'forebay \(name)' takes no further operand '\(extra)'; quote an operand that contains spaces.")
        }
    }

    static func accepts(_ kind: ValueKind, _ value: String) -> Bool {
        func isNumber(in range: ClosedRange<UInt64>) -> Bool {
            !value.isEmpty && value.utf8.allSatisfy { (48...57).contains($0) }
                && UInt64(value).map(range.contains) ?? false
        }
        switch kind {
        case .flag: return false
        case .number(let range): return isNumber(in: range)
        case .numberOr(let words, let range): return words.contains(value) || isNumber(in: range)
        case .decimal(let range):
            return !value.isEmpty && value.utf8.allSatisfy { (48...57).contains($0) || $0 == 46 }
                && Double(value).map(range.contains) ?? false
        case .choice(let words): return words.contains(value)
        case .text, .texts: return true
        }
    }

    /// What an option accepts, as the end of a sentence.
    static func expected(_ spec: OptionSpec) -> String {
        switch spec.kind {
        case .flag: "nothing"
        case .number(let range): "a number from \(range.lowerBound) to \(range.upperBound)"
        case .numberOr(let words, let range):
            "\(list(words)) or a number from \(range.lowerBound) to \(range.upperBound)"
        case .decimal(let range): "a number from \(plain(range.lowerBound)) to \(plain(range.upperBound))"
        case .choice(let words): list(words)
        case .text, .texts: spec.value
        }
    }

    private static func plain(_ number: Double) -> String {
        number == number.rounded() ? String(Int(number)) : String(number)
    }

    /// "a, b or c".
    static func list(_ words: [String], _ last: String = "or") -> String {
        guard words.count > 1 else { return words.first ?? "" }
        return words.dropLast().joined(separator: ", ") + " \(last) " + words[words.count - 1]
    }

    /// " – did you mean 'x'?" if it resembles a known word.
    private static func guess(_ word: String, among known: [String]) -> String {
        let near = known.map { ($0, distance(word, $0)) }.min { $0.1 < $1.1 }
        guard let near, near.1 <= 2, near.1 < near.0.count else {
            // 'publish' means 'pub', and 'subscribe' means 'sub' rather than 'subs'.
            let start = known.filter { $0.count > 2 && word.hasPrefix($0) }.min { $0.count < $1.count }
            return start.map { " (did you mean '\($0)'?)" } ?? ""
        }
        return " (did you mean '\(near.0)'?)"
    }

    /// The number of letters to insert, delete or change to turn one word into the other.
    private static func distance(_ a: String, _ b: String) -> Int {
        let b = Array(b.utf8)
        var row = Array(0...b.count)
        for (i, x) in a.utf8.prefix(64).enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for j in b.indices {
                let cost = min(row[j] + 1, row[j + 1] + 1, diagonal + (x == b[j] ? 0 : 1))
                diagonal = row[j + 1]
                row[j + 1] = cost
            }
        }
        return row[b.count]
    }
}
