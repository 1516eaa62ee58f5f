// ResultsJSON: every single measurement, for programs.

extension Results {
    func json() -> String {
        let entries = cases.indices.map { place in
            let entry = cases[place]
            let contenders = entry.contenders.indices.map { index in
                object([
                    ("name", string(entry.contenders[index].name)),
                    ("medians", medians(series[place][index])),
                    ("runs", array(series[place][index].figures.map(runs))),
                    ("failures", array(series[place][index].failures.map(string))),
                ])
            }
            return object([
                ("case", string(entry.name)), ("title", string(entry.title)),
                ("compared", string(entry.compared.rawValue)), ("goals", goals(place)), ("systems", array(contenders)),
            ])
        }
        return object([
            ("machine", object(machine.map { ($0.name, string($0.value)) })),
            ("versions", object(systems.map { ($0.name, string($0.version)) })),
            ("open_half_messages_per_second", halfOfNATS.map(number) ?? "null"), ("cases", array(entries)),
        ]) + "\n"
    }

    private func goals(_ place: Int) -> String {
        let byName = seriesByName(place)
        return array(
            cases[place].goals.map { goal in
                let outcome = goal.outcome(byName)
                let bound: (String, String)
                switch goal.bound {
                case .atMost(let most): bound = ("at_most", number(most))
                case .atLeast(let least): bound = ("at_least", number(least))
                }
                return object([
                    ("what", string(goal.title)), bound, ("outcome", outcome.map(number) ?? "null"),
                    ("reached", outcome.flatMap { judge(goal, $0) }.map { $0 ? "true" : "false" } ?? "null"),
                ])
            })
    }

    private func medians(_ series: Series) -> String {
        object(Metric.allCases.compactMap { metric in series.median(metric).map { (metric.rawValue, number($0)) } })
    }

    private func runs(_ figure: Figure) -> String {
        object(Metric.allCases.compactMap { metric in figure[metric].map { (metric.rawValue, number($0)) } })
    }

    private func number(_ value: Double) -> String { value.isFinite ? "\(value)" : "null" }

    private func array(_ values: [String]) -> String { "[" + values.joined(separator: ",") + "]" }

    private func object(_ members: [(String, String)]) -> String {
        "{" + members.map { string($0.0) + ":" + $0.1 }.joined(separator: ",") + "}"
    }

    private func string(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case let scalar where scalar.value < 0x20:
                let hex = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
