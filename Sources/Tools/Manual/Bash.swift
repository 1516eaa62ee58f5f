// Bash: a completion for bash without dependencies.

extension Manual {
    func bashCompletion() -> String {
        var out = """
            # bash completion for \(name), generated from its definitions

            \(function())() {
                local current=${COMP_WORDS[COMP_CWORD]} before= command= word i skip=0 operands=0
                local end=$COMP_CWORD
                # bash treats "=" as a separate word: --option=value is three words.
                if [[ $current == "=" ]]; then
                    current= before=${COMP_WORDS[COMP_CWORD - 1]} end=$((COMP_CWORD - 1))
                elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == "=" ]]; then
                    before=${COMP_WORDS[COMP_CWORD - 2]} end=$((COMP_CWORD - 2))
                else
                    before=${COMP_WORDS[COMP_CWORD - 1]}
                fi
                for ((i = 1; i < end; i++)); do
                    word=${COMP_WORDS[i]}
                    if ((skip)); then
                        [[ $word == "=" ]] || skip=0
                        continue
                    fi
                    case $word in

            """
        let valued = valuedOptions.flatMap(\.spellings)
        if !valued.isEmpty { out += "            \(valued.joined(separator: " | "))) skip=1 ;;\n" }
        out += """
                        -* | "=") ;;
                        # So is ":", as in rsocket://host:7690.
                        ":") skip=1 ;;
                        *)
                            case "$command $word" in

            """
        for (from, to) in commandSteps { out += "                    \"\(from)\") command=\"\(to)\" ;;\n" }
        out += """
                                *) operands=$((operands + 1)) ;;
                            esac
                            ;;
                    esac
                done

            """
        out += bashValues() + bashOptions() + bashOperands() + "}\n"
        if needsNames {
            out += """

                \(function("names"))() {
                    mapfile -t COMPREPLY < <(compgen -W "$(\(names("$1")))" -- "$2")
                }

                """
        }
        return out + "\ncomplete -F \(function()) \(name)\n"
    }

    /// The words that lead from one command to another.
    private var commandSteps: [(from: String, to: String)] {
        firstWords.map { (" " + $0, $0) }
            + commands.filter { $0.path.count == 2 }.map { $0.path.joined(separator: " ") }.map { ($0, $0) }
    }

    /// The value of the preceding option.
    private func bashValues() -> String {
        var out = "    case \"$command $before\" in\n"
        let places = [("", options)] + commands.map { ($0.path.joined(separator: " "), $0.options) }
        for (command, options) in places {
            for option in options where option.takesValue {
                // The program's own options go with every command.
                let patterns = option.spellings.map { command.isEmpty ? "*\" \($0)\"" : "\"\(command) \($0)\"" }
                out += "        \(patterns.joined(separator: " | "))) \(bashReply(option.values)); return ;;\n"
            }
        }
        return out + "    esac\n"
    }

    private func bashReply(_ values: ManualValues) -> String {
        switch values {
        case .any: "COMPREPLY=()"
        case .words(let words):
            "mapfile -t COMPREPLY < <(compgen -W \"\(words.joined(separator: " "))\" -- \"$current\")"
        case .file: "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")"
        case .listed(let command): "\(function("names")) \"\(command)\" \"$current\""
        }
    }

    private func bashOptions() -> String {
        func names(_ options: [ManualOption]) -> String { options.map { "--" + $0.name }.joined(separator: " ") }
        var out = """
                if [[ $current == -* ]]; then
                    word="\(names(options))"
                    case $command in

            """
        for command in commands where !command.options.isEmpty {
            let path = command.path.joined(separator: " ")
            out += "            \"\(path)\") word+=\" \(names(command.options))\" ;;\n"
        }
        return out + """
                    esac
                    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
                    return
                fi

            """
    }

    private func bashOperands() -> String {
        var out = "    case \"$command $operands\" in\n"
        if !commands.isEmpty {
            out += "        \" 0\") \(bashReply(.words(firstWords))) ;;\n"
        }
        for word in firstWords {
            let seconds = commands.filter { $0.path[0] == word && $0.path.count == 2 }.map { $0.path[1] }
            if !seconds.isEmpty { out += "        \"\(word) 0\") \(bashReply(.words(seconds))) ;;\n" }
        }
        for command in commands {
            for (place, operand) in command.operands.enumerated() where operand.values != .any {
                let path = command.path.joined(separator: " ")
                out += "        \"\(path) \(place)\") \(bashReply(operand.values)) ;;\n"
            }
        }
        return out + "        *) COMPREPLY=() ;;\n    esac\n"
    }
}
