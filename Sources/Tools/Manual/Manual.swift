// Manual: what a program says of itself – its commands, options, operands and examples –, from which manual pages and
// shell completions are made. The programs fill it from the very tables that they parse their command lines by.

/// What may stand in a place of the command line, as far as a shell can know.
public enum ManualValues: Equatable, Sendable {
    /// The person must know.
    case any
    case words([String])
    case file
    /// A name or an id that such a command of the program's lists: "topics", "context list".
    case listed(String)
}

public struct ManualOption: Equatable, Sendable {
    /// Without its dashes.
    public var name: String
    public var short: Character?
    /// How its value is called; empty if it takes none.
    public var value: String
    /// A phrase, without a full stop.
    public var help: String
    public var values: ManualValues
    /// The heading it stands under where a program has no commands; options of one group stand together.
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
    /// The ways to write it: "-n", "--count".
    var spellings: [String] { (short.map { ["-\($0)"] } ?? []) + ["--\(name)"] }
}

public struct ManualOperand: Equatable, Sendable {
    /// As in a synopsis, in brackets if it may be left out.
    public var name: String
    public var values: ManualValues

    public init(_ name: String, values: ManualValues = .any) {
        self.name = name
        self.values = values
    }
}

public struct ManualExample: Equatable, Sendable {
    public var line: String
    /// What it is for; may be empty.
    public var says: String

    public init(_ line: String, _ says: String = "") {
        self.line = line
        self.says = says
    }
}

/// A command within a program.
public struct ManualCommand: Equatable, Sendable {
    /// One word, or two of which several commands share the first.
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

/// A part of a page beside those that every page has.
public struct ManualSection: Equatable, Sendable {
    public var title: String
    public var paragraphs: [String]
    /// What is explained one by one: "FOREBAY_URL", and what it does.
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

/// A program, or a file, and its page.
public struct Manual: Equatable, Sendable {
    public var name: String
    /// Of the manual: 1 for commands, 5 for files, 8 for services.
    public var section: Int
    public var version: String
    /// What it is, as a phrase.
    public var title: String
    /// Lines as "forebay COMMAND [OPTION…]"; the first word is set in bold.
    public var synopsis: [String]
    public var description: [String]
    public var commands: [ManualCommand]
    /// Of the program, and so of all its commands.
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

    /// The first words of the commands, each once, in their order.
    var firstWords: [String] {
        commands.reduce(into: []) { if !$0.contains($1.path[0]) { $0.append($1.path[0]) } }
    }

    /// Options with values, of any command. A name takes a value everywhere or nowhere.
    var valuedOptions: [ManualOption] {
        var found: [ManualOption] = []
        for option in options + commands.flatMap(\.options) where option.takesValue {
            if !found.contains(where: { $0.spellings == option.spellings }) { found.append(option) }
        }
        return found
    }
}

/// Shells that completions are made for.
public enum Shell: String, CaseIterable, Sendable {
    case bash
    case zsh
    case fish
}

extension Manual {
    /// A script that has `shell` complete this program's command line.
    public func completion(for shell: Shell) -> String {
        switch shell {
        case .bash: bashCompletion()
        case .zsh: zshCompletion()
        case .fish: fishCompletion()
        }
    }

    /// A shell's command that prints the names or ids that a command of the program's lists, one a line, and nothing if
    /// that fails. Only letters that mean nothing to a shell come out, whatever a broker says.
    /// - Parameter command: as the shell has it.
    func names(_ command: String) -> String {
        "command \(name) \(command) --json 2>/dev/null"
            + #" | sed -nE 's/^\{"(name|id)":"?([A-Za-z0-9._-]+)"?[,}].*/\2/p'"#
    }
    /// The name of a shell's function for something of this program: "_forebay_topics".
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
