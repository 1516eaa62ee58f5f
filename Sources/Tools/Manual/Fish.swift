// Fish: a completion for fish.

extension Manual {
    func fishCompletion() -> String {
        var out = "# fish completion for \(name), generated from its definitions\n\n"
        if needsNames { out += "function \(function("names"))\n    \(names("$argv"))\nend\n\n" }
        out += fishCommandFunction()
        out += "complete -c \(name) -f\n"
        for option in options { out += fishOption(option, when: nil) }
        for word in firstWords {
            let members = commands.filter { $0.path[0] == word }
            let single = members[0].path.count == 1
            let says = single ? members[0].summary : members.map { $0.path[1] }.joined(separator: ", ")
            out += fishLine(when: "\(function("at")) ''", "-a \(word)", says)
            guard !single else { continue }
            for member in members {
                out += fishLine(when: "\(function("at")) \(word)", "-a \(member.path[1])", member.summary)
            }
        }
        for command in commands {
            let condition = "\(function("at")) '\(command.path.joined(separator: " "))'"
            for option in command.options { out += fishOption(option, when: condition) }
            for (place, operand) in command.operands.enumerated() {
                guard let list = fishList(operand.values) else { continue }
                out += fishLine(when: "\(condition) \(place)", list, operand.name.filter { !"[]".contains($0) })
            }
        }
        return out
    }

    /// A function that reports whether the line has reached a command, "" for none yet.
    private func fishCommandFunction() -> String {
        guard !commands.isEmpty else { return "" }
        let valued = valuedOptions.flatMap(\.spellings).joined(separator: " ")
        let groups = firstWords.filter { word in commands.contains { $0.path[0] == word && $0.path.count == 2 } }
        return """
            # Whether the line contains this command ("" for none) with this number of operands.
            function \(function("at"))
                set -l path
                set -l operands 0
                set -l skip 0
                for word in (commandline -opc)[2..]
                    if test $skip = 1
                        set skip 0
                    else if contains -- $word \(valued)
                        set skip 1
                    else if not string match -q -- '-*' $word
                        if test (count $path) = 0; or contains -- "$path" \(groups.joined(separator: " "))
                            set -a path $word
                        else
                            set operands (math $operands + 1)
                        end
                    end
                end
                test "$path" = "$argv[1]"; and test (count $argv) = 1 -o "$operands" = "$argv[2]"
            end


            """
    }

    private func fishOption(_ option: ManualOption, when condition: String?) -> String {
        var words = option.short.map { "-s \($0) " } ?? ""
        words += "-l \(option.name)"
        if option.takesValue {
            words += option.values == .file ? " -r -F" : " -x"
            if option.values != .file, let list = fishList(option.values) { words += " \(list)" }
        }
        return fishLine(when: condition, words, option.help)
    }

    private func fishList(_ values: ManualValues) -> String? {
        switch values {
        case .any: nil
        case .words(let words): "-a '\(words.joined(separator: " "))'"
        case .file: "-F"
        case .listed(let command): "-a '(\(function("names")) \(command))'"
        }
    }

    private func fishLine(when condition: String?, _ words: String, _ says: String) -> String {
        let when = condition.map { " -n \(fishQuote($0))" } ?? ""
        return "complete -c \(name)\(when) \(words) -d \(fishQuote(says))\n"
    }

    private func fishQuote(_ text: String) -> String {
        "'\(text.swapping("\\", with: "\\\\").swapping("'", with: "\\'"))'"
    }
}
