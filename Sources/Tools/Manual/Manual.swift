// Manual: a program's description of itself (commands, options, operands and examples), from which manual pages and
// shell completions are generated. Programs fill it from the tables that they use to parse their command lines.

/// What a shell can know about the possible values at a position of the command line.
public enum ManualValues: Equatable, Sendable {
    /// Only the user can know.
    case any
    case words([String])
    case file
    /// A name or an id listed by this command of the program: "topics", "context list".
    case listed(String)
}

public struct ManualOption: Equatable, Sendable {
    /// The name, without its dashes.
    public var name: String
    public var short: Character?
    /// The name of the option's value; empty if it takes none.
    public var value: String
    /// A phrase, without a full stop.
    public var help: String
    public var values: ManualValues
    /// The heading for the option if the program runs without a command; options of one group are adjacent.
    public var group = ""

    public init(
        _ name: String, short: Character? = nil, value: String = "", help: String, values: ManualValues = .any
    ) {
        self.name = name
        self.short = short
        self.value = value
        self.help = help
        self.values = values
    }

    public var takesValue: Bool { !value.isEmpty }
    /// The ways to write the option: "-n", "--count".
    var spellings: [String] { (short.map { ["-\($0)"] } ?? []) + ["--\(name)"] }
}

public struct ManualOperand: Equatable, Sendable {
    /// The name as in a synopsis, in brackets if optional.
    public var name: String
    public var values: ManualValues

    public init(_ name: String, values: ManualValues = .any) {
        self.name = name
        self.values = values
    }
}

public struct ManualExample: Equatable, Sendable {
    public var line: String
    /// What the example is for; may be empty.
    public var says: String

    public init(_ line: String, _ says: String = "") {
        self.line = line
        self.says = says
    }
}

/// A command within a program.
public struct ManualCommand: Equatable, Sendable {
    /// One word, or two if several commands share the first.
    public var path: [String]
    public var operands: [ManualOperand]
    public var summary: String
    public var details: [String]
    public var options: [ManualOption]
    public var examples: [ManualExample]

    public init(
        _ path: [String], operands: [ManualOperand] = [], summary: String, details: [String] = [],
        options: [ManualOption] = [], examples: [ManualExample] = []
    ) {
        precondition((1...2).contains(path.count))
        self.path = path
        self.operands = operands
        self.summary = summary
        self.details = details
        self.options = options
        self.examples = examples
    }
}

/// A section besides those that every page has.
public struct ManualSection: Equatable, Sendable {
    public var title: String
    public var paragraphs: [String]
    /// Terms with their explanations: "FOREBAY_URL", and what it does.
    public var items: [(term: String, says: String)]

    public init(_ title: String, _ paragraphs: [String] = [], items: [(term: String, says: String)] = []) {
        self.title = title
        self.paragraphs = paragraphs
        self.items = items
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.title == b.title && a.paragraphs == b.paragraphs && a.items.elementsEqual(b.items, by: ==)
    }
}

/// A program or a file, and its manual page.
public struct Manual: Equatable, Sendable {
    public var name: String
    /// The manual section: 1 for commands, 5 for files, 8 for services.
    public var section: Int
    public var version: String
    /// What the program or file is, as a phrase.
    public var title: String
    /// Lines such as "forebay COMMAND [OPTION…]"; the first word is set in bold.
    public var synopsis: [String]
    public var description: [String]
    public var commands: [ManualCommand]
    /// Options of the program, which apply to all its commands.
    public var options: [ManualOption]
    public var sections: [ManualSection]
    public var examples: [ManualExample]
    /// Names with sections: "forebayd(8)".
    public var seeAlso: [String]

    public init(
        _ name: String, section: Int, version: String, title: String, synopsis: [String], description: [String],
        commands: [ManualCommand] = [], options: [ManualOption] = [], sections: [ManualSection] = [],
        examples: [ManualExample] = [], seeAlso: [String] = []
    ) {
        self.name = name
        self.section = section
        self.version = version
        self.title = title
        self.synopsis = synopsis
        self.description = description
        self.commands = commands
        self.options = options
        self.sections = sections
        self.examples = examples
        self.seeAlso = seeAlso
    }

    /// The first words of the commands, each once, in order.
    var firstWords: [String] {
        commands.reduce(into: []) { if !$0.contains($1.path[0]) { $0.append($1.path[0]) } }
    }

    /// Options with values, of any command. An option name takes a value either in all commands or in none.
    var valuedOptions: [ManualOption] {
        var found: [ManualOption] = []
        for option in options + commands.flatMap(\.options) where option.takesValue {
            if !found.contains(where: { $0.spellings == option.spellings }) { found.append(option) }
        }
        return found
    }
}

/// Shells for which completions can be generated.
public enum Shell: String, CaseIterable, Sendable {
    case bash
    case zsh
    case fish
}

extension Manual {
    /// A script that makes `shell` complete this program's command line.
    public func completion(for shell: Shell) -> String {
        switch shell {
        case .bash: bashCompletion()
        case .zsh: zshCompletion()
        case .fish: fishCompletion()
        }
    }

    /// A shell command that prints the names or ids listed by a command of the program, one per line, and nothing if
    /// that fails. The command prints only characters that are not special to a shell, whatever a broker sends.
    /// - Parameter command: as written in the shell.
    func names(_ command: String) -> String {
        "command \(name) \(command) --json 2>/dev/null"
            + #" | sed -nE 's/^\{"(name|id)":"?([A-Za-z0-9._-]+)"?[,}].*/\2/p'"#
    }
    /// The name of a shell function for a part of this program: "_forebay_topics".
    func function(_ part: String = "") -> String { "_" + name + (part.isEmpty ? "" : "_" + part) }

    var needsNames: Bool {
        let values = commands.flatMap { $0.operands.map(\.values) + $0.options.map(\.values) } + options.map(\.values)
        return values.contains { if case .listed = $0 { true } else { false } }
    }
}

extension String {
    func swapping(_ character: Character, with text: String) -> String {
        map { $0 == character ? text : String($0) }.joined()
    }
}
