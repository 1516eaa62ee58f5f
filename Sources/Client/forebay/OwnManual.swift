// OwnManual: forebay's manual page and completions, generated from the table of commands.

import Manual

enum OwnManual {
    /// The output of `forebay completion` and `forebay manual`; nil for other commands.
    static func text(_ command: Command, _ arguments: Arguments) throws(UsageError) -> String? {
        switch command {
        case .completion:
            guard let shell = Shell(rawValue: arguments.operands[0]) else {
                throw UsageError(
                    "There is no completion for '\(arguments.operands[0])'; the shells are "
                        + "\(Arguments.list(Shell.allCases.map(\.rawValue), "and")).")
            }
            return manual().completion(for: shell)
        case .manual: return manual().page()
        default: return nil
        }
    }

    static func manual(_ commands: [CommandSpec] = commandTable) -> Manual {
        Manual(
            "forebay", section: 1, version: version, title: Help.title, synopsis: ["forebay COMMAND [OPTION]…"],
            description: [
                "A client for Forebay, a broker in which every subscriber requests as many messages as it can process "
                    + "and never receives more. It subscribes, publishes, shows the broker's state, and measures.",
                "Options may precede or follow operands, and common ones may precede the command. A long option may be "
                    + "written --option=value. Arguments after -- are operands.",
            ],
            commands: commands.map(ManualCommand.init), options: commonOptions.map(ManualOption.init),
            sections: [
                ManualSection(
                    "ENVIRONMENT",
                    items: [
                        ("FOREBAY_URL", "the broker's URL, or several separated by commas, if --url is not given"),
                        ("FOREBAY_CONTEXT", "the saved broker, if neither --context nor --url is given"),
                        ("FOREBAY_USER", "the user to connect as, if --user is not given"),
                        ("FOREBAY_PASSWORD", "the user's password, if --password-file is not given"),
                        ("FOREBAY_TOKEN", "a token to connect with, if neither a user nor --token-file is given"),
                    ]),
                ManualSection(
                    "EXIT STATUS", items: Help.exitCodes.map { (String($0.code), $0.says) }),
            ],
            examples: Help.examples.map { ManualExample($0) }, seeAlso: ["forebayd(8)"])
    }
}

extension ManualCommand {
    fileprivate init(_ spec: CommandSpec) {
        self.init(
            spec.path, operands: spec.operands.map { ManualOperand($0, of: spec.id) }, summary: spec.summary,
            details: spec.details, options: spec.options.map(ManualOption.init),
            examples: spec.examples.map { ManualExample($0.line, $0.says) })
    }
}

extension ManualOperand {
    fileprivate init(_ name: String, of command: Command) {
        let values: ManualValues =
            switch (command, name) {
            case (.contextAdd, _): .any
            case (.contextUse, _), (.contextRemove, _): .listed("context list")
            case (.closeConnection, _): .listed("conns")
            case (.closeSubscription, _): .listed("subs")
            case (_, "SHELL"): .words(Shell.allCases.map(\.rawValue))
            case (_, "TOPIC"), (_, "[TOPIC]"), (_, "NAME"): .listed("topics")
            default: .any
            }
        self.init(name, values: values)
    }
}

extension ManualOption {
    fileprivate init(_ spec: OptionSpec) {
        let values: ManualValues =
            switch spec.kind {
            case .choice(let words), .numberOr(let words, _): .words(words)
            case .text where spec.value == "FILE": .file
            case .text where spec.name == "context": .listed("context list")
            case .flag, .number, .decimal, .text, .texts: .any
            }
        self.init(spec.name, short: spec.short, value: spec.value, help: spec.help, values: values)
    }
}
