// Help: `-h`, generated from the table of commands.

import Glibc

enum Help {
    static let width = 96
    static let title = "command-line client of the Forebay broker"
    static let examples = [
        "vmstat 1 | forebay pub host.vmstat --stdin",
        "forebay sub host.vmstat --replay 10 --request 5",
        "forebay sub host.vmstat --interactive",
        "forebay subs",
    ]
    static let exitCodes: [(code: Int32, says: String)] = [
        (ExitCode.done, "done"), (ExitCode.failure, "failure reported by the broker, or output that cannot be written"),
        (ExitCode.usage, "usage"),
        (ExitCode.connection, "could not connect, connection lost or ended by the broker"),
        (ExitCode.of(signal: SIGINT), "pub was interrupted by ^C"),
        (ExitCode.of(signal: SIGTERM), "pub was ended by SIGTERM"),
    ]

    static func program(_ commands: [CommandSpec] = commandTable) -> String {
        var out = "forebay – \(title).\n\nUsage: forebay COMMAND [OPTION…]\n\n"
        out += "Commands\n"
        out += table(commands.map { (synopsis($0), $0.summary) })
        out += "\nOptions of every command\n" + options(commonOptions)
        out += "\nExamples\n" + examples.map { "  \($0)\n" }.joined()
        out += "\nExit codes: " + exitCodes.map { "\($0.code) \($0.says)" }.joined(separator: " · ")
        return out + "\n'forebay COMMAND -h' explains one command.\n"
    }

    static func group(_ word: String, _ commands: [CommandSpec] = commandTable) -> String {
        let members = commands.filter { $0.path[0] == word }
        var out = members.map { "Usage: forebay \(synopsis($0)) [OPTION…]\n" }.joined()
        out += "\nCommands\n" + table(members.map { (synopsis($0), $0.summary) })
        out += "\nOptions\n" + options(commonOptions)
        return out + "\n" + examples(members.flatMap(\.examples))
    }

    static func command(_ spec: CommandSpec) -> String {

        var out = "forebay \(spec.path.joined(separator: " ")) – \(spec.summary)\n\n"
        out += "Usage: forebay \(synopsis(spec)) [OPTION…]\n"
        for paragraph in spec.details { out += "\n" + wrap(paragraph, width: width, indent: 0) + "\n" }
        out += "\nOptions\n" + options(spec.options + commonOptions)
        if !spec.examples.isEmpty { out += "\n" + examples(spec.examples) }
        return out
    }

    private static func synopsis(_ spec: CommandSpec) -> String {
        (spec.path + spec.operands).joined(separator: " ")
    }

    private static func options(_ specs: [OptionSpec]) -> String {
        table(
            specs.map { spec in
                let short = spec.short.map { "-\($0), " } ?? "    "
                return (short + "--" + spec.name + (spec.value.isEmpty ? "" : " " + spec.value), spec.help)
            })
    }

    private static func examples(_ lines: [(line: String, says: String)]) -> String {
        "Examples\n"
            + lines.map { line, says in
                let text = "  \(line)"
                if says.isEmpty { return text + "\n" }
                let pad = String(repeating: " ", count: max(46 - text.count, 2))
                return text + pad + "# \(says)\n"
            }.joined()
    }

    private static func table(_ rows: [(String, String)]) -> String {
        let column = rows.map(\.0.count).max() ?? 0
        return rows.map { left, right in
            let pad = String(repeating: " ", count: column - left.count)
            return "  \(left)\(pad)  \(wrap(right, width: width - column - 4, indent: column + 4))\n"
        }.joined()
    }

    /// Breaks `text` between words; lines after the first are indented.
    static func wrap(_ text: String, width: Int, indent: Int) -> String {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty, line.count + 1 + word.count > width {
                lines.append(line)
                line = String(word)
            } else {
                line += (line.isEmpty ? "" : " ") + word
            }
        }
        lines.append(line)
        return lines.joined(separator: "\n" + String(repeating: " ", count: indent))
    }
}
