// Zsh: a completion for zsh's completion system (compsys).

extension Manual {
    func zshCompletion() -> String {
        var out = "#compdef \(name)\n# generated from the program's definitions\n\n"
        if commands.isEmpty {
            out += "\(function())() {\n    _arguments -s -S" + options.map { " \\\n        \(zshSpec($0))" }.joined()
            return out + "\n}\n\n" + zshEnd
        }
        if needsNames {
            out += """
                \(function("names"))() {
                    local command=$1
                    shift
                    local -a names
                    names=(${(f)"$(\(names("${=command}")))"})
                    compadd "$@" -a names
                }


                """
        }
        out += "typeset -ga \(function("common"))=(\n"
        for option in options { out += "    \(zshSpec(option))\n" }
        out += ")\n\n"
        for command in commands { out += zshFunction(command) }
        for word in firstWords where commands.contains(where: { $0.path[0] == word && $0.path.count == 2 }) {
            let members = commands.filter { $0.path[0] == word }
            out += zshDispatcher(
                function(word), members.map { ($0.path[1], $0.summary, function($0.path.joined(separator: "_"))) })
        }
        out += zshDispatcher(
            function(),
            firstWords.map { word in
                let members = commands.filter { $0.path[0] == word }
                let single = members[0].path.count == 1
                let summary = single ? members[0].summary : members.map { $0.path[1] }.joined(separator: ", ")
                return (word, summary, function(word))
            })
        return out + zshEnd
    }

    /// A file on the function path is run at the first completion, and completes then; a sourced file registers the
    /// function.
    private var zshEnd: String {
        """
        if [[ "$funcstack[1]" == \(function()) ]]; then
            \(function()) "$@"
        else
            (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
            compdef \(function()) \(name)
        fi

        """
    }

    /// A function that completes the words of `entries`, and then what follows by their functions.
    private func zshDispatcher(_ name: String, _ entries: [(word: String, says: String, function: String)]) -> String {
        var out = """
            \(name)() {
                local context state state_descr line
                typeset -A opt_args
                _arguments -s -S -C $\(function("common")) '1: :->word' '*:: :->rest' && return
                case $state in
                    word)
                        local -a words_=(

            """
        for entry in entries { out += "                \(zshQuote("\(zshColons(entry.word)):\(entry.says)"))\n" }
        out += """
                        )
                        _describe -t commands command words_
                        ;;
                    rest)
                        case $line[1] in

            """
        for entry in entries { out += "                \(entry.word)) \(entry.function) ;;\n" }
        return out + """
                        esac
                        ;;
                esac
            }


            """
    }

    private func zshFunction(_ command: ManualCommand) -> String {
        var parts = command.options.map { zshSpec($0) }
        for operand in command.operands {
            let name = operand.name.filter { !"[]".contains($0) }
            let optional = operand.name.hasPrefix("[") ? "::" : ":"
            parts.append(zshQuote("\(optional)\(zshColons(name.lowercased())):\(zshAction(operand.values))"))
        }
        return """
            \(function(command.path.joined(separator: "_")))() {
                _arguments -s -S $\(function("common")) \(parts.map { "\\\n        \($0)" }.joined(separator: " "))
            }


            """
    }

    /// An option in the syntax of `_arguments`.
    private func zshSpec(_ option: ManualOption) -> String {
        let spellings = option.spellings
        let help = option.help.swapping("[", with: "(").swapping("]", with: ")")
        let value = option.takesValue ? ":\(zshColons(option.value)):\(zshAction(option.values))" : ""
        let equals = option.takesValue ? "=" : ""
        if spellings.count == 1 { return zshQuote("--\(option.name)\(equals)[\(help)]\(value)") }
        // Both spellings, which exclude each other: (-n --count)'{-n,--count=}'[…].
        let short = option.takesValue ? "\(spellings[0])+" : spellings[0]
        return zshQuote("(\(spellings.joined(separator: " ")))") + "{\(short),--\(option.name)\(equals)}"
            + zshQuote("[\(help)]\(value)")
    }

    private func zshAction(_ values: ManualValues) -> String {
        switch values {
        case .any: " "
        case .words(let words): "(\(words.joined(separator: " ")))"
        case .file: "_files"
        // In braces, the command is run unchanged, without the options for compadd.
        case .listed(let command): "{\(function("names")) \"\(command)\"}"
        }
    }

    private func zshColons(_ text: String) -> String { text.swapping(":", with: "\\:") }
    private func zshQuote(_ text: String) -> String { "'\(text.swapping("'", with: "'\\''"))'" }
}
