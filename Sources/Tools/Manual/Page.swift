// Page: a manual as a page for man(1), in man(7) macros.

extension Manual {
    /// The source of the page.
    public func page() -> String {
        var page = Roff()
        page.line(".\\\" Generated from the program's definitions; do not edit.")
        page.line(".TH \(name.uppercased()) \(section) \"\" \"Forebay \(version)\" \"Forebay\"")
        // No hyphenation in option names, and no justified lines.
        page.line(".nh")
        page.line(".ad l")
        page.heading("NAME")
        page.line("\(Roff.escape(name)) \\- \(Roff.escape(title))")
        page.heading("SYNOPSIS")
        for (index, line) in synopsis.enumerated() {
            if index > 0 { page.line(".br") }
            page.synopsis(line)
        }
        page.heading("DESCRIPTION")
        page.paragraphs(description)
        if !commands.isEmpty {
            page.heading("COMMANDS")
            for command in commands { page.command(command, of: name) }
        }
        if !options.isEmpty {
            // Options in groups are those of a program that also runs without a command.
            let areCommon = !commands.isEmpty && options[0].group.isEmpty
            page.heading(areCommon ? "OPTIONS OF EVERY COMMAND" : "OPTIONS")
            var group = ""
            for option in options {
                if option.group != group {
                    group = option.group
                    page.line(".SS \(Roff.quote(group))")
                }
                page.option(option)
            }
        }
        for section in sections {
            page.heading(section.title)
            page.paragraphs(section.paragraphs)
            for item in section.items { page.item(item.term, item.says) }
        }
        if !examples.isEmpty {
            page.heading("EXAMPLES")
            page.examples(examples)
        }
        if !seeAlso.isEmpty {
            page.heading("SEE ALSO")
            page.line(seeAlso.map(Roff.reference).joined(separator: ",\n"))
        }
        return page.text
    }
}

/// Collects the lines of a page.
private struct Roff {
    private(set) var text = ""

    mutating func line(_ line: String) { text += line + "\n" }

    mutating func heading(_ title: String) { line(".SH \(Roff.quote(title))") }

    mutating func paragraphs(_ paragraphs: [String]) {
        for (index, paragraph) in paragraphs.enumerated() {
            if index > 0 { line(".PP") }
            line(Roff.inline(paragraph))
        }
    }

    mutating func synopsis(_ words: String) {
        let first = words.prefix { $0 != " " }
        line("\\fB\(Roff.escape(String(first)))\\fR\(Roff.escape(String(words.dropFirst(first.count))))")
    }

    mutating func command(_ command: ManualCommand, of program: String) {
        let words = command.path.joined(separator: " ")
        line(".SS \(Roff.quote("\(program) \(words)"))")
        let operands = command.operands.map { " \($0.name)" }.joined()
        synopsis("\(program) \(words)\(operands)\(command.options.isEmpty ? "" : " [OPTION…]")")
        line(".PP")
        line(Roff.inline(Roff.sentence(command.summary)))
        for paragraph in command.details {
            line(".PP")
            line(Roff.inline(paragraph))
        }
        for one in command.options { option(one) }
        if !command.examples.isEmpty {
            line(".PP")
            line(command.examples.count == 1 ? "Example:" : "Examples:")
            examples(command.examples)
        }
    }

    mutating func option(_ option: ManualOption) {
        line(".TP")
        let value = option.value.isEmpty ? "" : " \\fI\(Roff.escape(option.value))\\fR"
        line(option.spellings.map { "\\fB\(Roff.escape($0))\\fR" }.joined(separator: ", ") + value)
        line(Roff.inline(Roff.sentence(option.help)))
    }

    mutating func item(_ term: String, _ says: String) {
        line(".TP")
        line("\\fB\(Roff.escape(term))\\fR")
        line(Roff.inline(Roff.sentence(says)))
    }

    mutating func examples(_ examples: [ManualExample]) {
        for example in examples {
            line(".PP")
            if !example.says.isEmpty {
                line(Roff.inline(Roff.sentence(example.says)))
                line(".PP")
            }
            line(".nf")
            line(".RS 4")
            for part in example.line.split(separator: "\n", omittingEmptySubsequences: false) {
                line(Roff.guarded(Roff.escape(String(part))))
            }
            line(".RE")
            line(".fi")
        }
    }

    /// "forebayd(8)", with the name in bold.
    static func reference(_ reference: String) -> String {
        let name = reference.prefix { $0 != "(" }
        return "\\fB\(escape(String(name)))\\fR\(reference.dropFirst(name.count))"
    }

    /// A phrase of `-h` as a sentence.
    static func sentence(_ phrase: String) -> String {
        guard let first = phrase.first, let last = phrase.last else { return "" }
        // An option at the beginning is not affected.
        return first.uppercased() + phrase.dropFirst() + (".:?!…".contains(last) ? "" : ".")
    }

    /// Running text, with options highlighted.
    static func inline(_ text: String) -> String {
        let words = text.split(separator: " ").map { word -> String in
            guard word.hasPrefix("--"), let first = word.dropFirst(2).first, first.isLetter else {
                return escape(String(word))
            }
            let name = word.prefix { $0.isLetter || $0.isNumber || $0 == "-" }
            return "\\fB\(escape(String(name)))\\fR\(escape(String(word.dropFirst(name.count))))"
        }
        return guarded(words.joined(separator: " "))
    }

    static func escape(_ text: String) -> String {
        var out = ""
        for character in text {
            switch character {
            case "\\": out += "\\e"
            case "-": out += "\\-"
            case "'": out += "\\(aq"
            case "^": out += "\\(ha"
            case "~": out += "\\(ti"
            case "`": out += "\\(ga"
            default: out.append(character)
            }
        }
        return out
    }

    static func quote(_ text: String) -> String { "\"\(escape(text))\"" }

    /// A full stop at the beginning of a line would be a request.
    private static func guarded(_ text: String) -> String { text.hasPrefix(".") ? "\\&" + text : text }
}
