// Results: all measurements, as one readable table.

struct Results {
    let cases: [Case]
    /// By case and contender, in order.
    var series: [[Series]]
    var machine: [(name: String, value: String)] = []
    /// The systems that ran, and the version that each reports.
    var systems: [(name: String, version: String)] = []
    /// CPUs not used by the generator.
    var freeCPUs = 1
    /// The rate that `halfOfNATS` stands for, in messages per second, if such a case was run.
    var halfOfNATS: Double?

    init(cases: [Case]) {
        self.cases = cases
        series = cases.map { [Series](repeating: Series(), count: $0.contenders.count) }
    }

    /// Columns besides the compared metric; each is omitted if no contender has a value.
    private static let columns: [(title: String, metric: Metric)] = [
        ("deliveries/s", .deliveriesPerSecond), ("acks/s", .acknowledgementsPerSecond),
        ("CPU/ack", .cpuPerAcknowledgement), ("requests/s", .requestsPerSecond), ("msg/read", .batch),
        ("pairs/s", .pairs), ("broker", .utilisation), ("at rest", .rest), ("generator", .generator), ("p50 µs", .p50),
        ("p99 alone µs", .p99Alone), ("p99 µs", .p99), ("p99.9 µs", .p999),
        ("p99.99 µs", .p9999),
        ("max µs", .maximum), ("RSS MiB", .resident), ("peak MiB", .peak),
        ("+anon MiB", .anonymousGrowth), ("anon/topic", .perTopic), ("seconds", .seconds), ("lost", .lost),
        ("dropped", .dropped),
        ("disconnected", .disconnected), ("connections", .connections),
    ]

    func table() -> String {
        var rows = [
            ["case", "system", "median", "spread", "÷ first"] + Results.columns.map(\.title)
        ]
        for (place, entry) in cases.enumerated() {
            for (index, contender) in entry.contenders.enumerated() {
                rows.append(row(entry, contender, series[place][index], first: series[place][0], index == 0))
            }
        }
        var text = "\n" + machine.map { "\(Text.pad($0.name, 14))\($0.value)\n" }.joined()
        text += systems.map { "\(Text.pad($0.name, 14))\($0.version)\n" }.joined() + "\n"
        text += layOut(rows) + "\n" + legend + goals() + disturbances() + failures()
        return text
    }

    private func row(_ entry: Case, _ contender: Contender, _ series: Series, first: Series, _ isFirst: Bool)
        -> [String]
    {
        let median = series.median(entry.compared)
        var row = [isFirst ? entry.name : "", contender.name]
        row.append(median.map { Text.value($0, entry.compared) } ?? "failed")
        row.append(series.spread(entry.compared).map { "\(Text.number($0 * 100, decimals: 0)) %" } ?? "")
        if let median, let base = first.median(entry.compared), base > 0 {
            row.append(Text.number(median / base, decimals: 2))
        } else {
            row.append("")
        }
        for (title, metric) in Results.columns {
            var cell = series.median(metric).map { Text.value($0, metric) } ?? ""
            // The unit is in the header.
            if title.hasSuffix("µs") || title.hasSuffix("MiB") || title.hasSuffix("/s") {
                cell = cell.split(whereSeparator: { $0 == " " || $0 == "/" }).first.map(String.init) ?? ""
            }
            row.append(cell)
        }
        return row
    }

    private func layOut(_ rows: [[String]]) -> String {
        let used = rows[0].indices.filter { column in
            rows.dropFirst().contains { !$0[column].isEmpty }
        }
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        var text = ""
        for (index, row) in rows.enumerated() {
            let cells = used.map { column in
                column < 2 ? Text.pad(row[column], widths[column]) : Text.padLeft(row[column], widths[column])
            }
            if index > 0, !row[0].isEmpty { text += "\n" }
            text += cells.joined(separator: "  ") + "\n"
        }
        return text
    }

    private var legend: String {
        var text = cases.map {
            "\(Text.pad($0.name, Catalogue.nameWidth))\($0.title): \($0.compared.rawValue)\n"
        }.joined()
        text += """

            Medians of all rounds; spread: (largest − smallest) ÷ median; ÷ first: the median divided by that of
            the case's first row. broker, generator: CPU time per wall time of the broker's process and of the
            load generator (one thread). msg/read: messages per read of a subscriber. At full speed, no
            publisher is more than 1 MiB of payload (64 to 8,192 messages) ahead of the slowest subscriber
            that reads, with any system. Latencies are measured from the scheduled time of a message, or from when
            an acknowledged publish is sent. synced: messages are on disk before they are acknowledged; unsynced:
            they are written to disk later.

            """
        if let halfOfNATS {
            text += "open-half-10 sends \(Text.number(halfOfNATS, decimals: 0)) messages/s.\n"
        }
        return text
    }

    private func goals() -> String {
        var text = ""
        for (place, entry) in cases.enumerated() {
            let byName = seriesByName(place)
            for goal in entry.goals {
                guard let outcome = goal.outcome(byName) else { continue }
                let bound: String
                switch goal.bound {
                case .atMost(let most): bound = "≤ \(bare(most, goal))"
                case .atLeast(let least): bound = "≥ \(bare(least, goal))"
                }
                let verdict = judge(goal, outcome).map { $0 ? "reached" : "NOT REACHED" } ?? "not judged: too few CPUs"
                text += Text.pad(entry.name, Catalogue.nameWidth) + Text.pad(goal.title, 58)
                text += Text.padLeft(bare(outcome, goal), 12) + "  (\(bound))  \(verdict)\n"
            }
        }
        return text.isEmpty ? "" : "\nGoals:\n" + text
    }

    /// Whether a goal is reached; nil if this machine cannot decide.
    func judge(_ goal: Goal, _ outcome: Double) -> Bool? {
        goal.cpus <= freeCPUs ? goal.isReached(by: outcome) : nil
    }

    private func bare(_ value: Double, _ goal: Goal) -> String {
        if case .ratio = goal.quantity { return Text.number(value, decimals: 2) }
        return Text.value(value, goal.metric)
    }

    /// The fraction of wall time waiting for a CPU above which other processes may have distorted a result.
    private static let disturbed = 0.03

    private func disturbances() -> String {
        var text = ""
        for (place, entry) in cases.enumerated() {
            for (index, contender) in entry.contenders.enumerated() {
                for (who, metric) in [("broker", Metric.brokerWaited), ("generator", .generatorWaited)] {
                    guard let waited = series[place][index].median(metric), waited > Results.disturbed else { continue }
                    let share = Text.value(waited, metric)
                    text += "\(entry.name), \(contender.name): the \(who) waited \(share) of the time\n"
                }
            }
        }
        return text.isEmpty ? "" : "\nDisturbed: other processes ran on their CPUs\n" + text
    }

    private func failures() -> String {
        var text = ""
        for (place, entry) in cases.enumerated() {
            for (index, contender) in entry.contenders.enumerated() {
                for failure in series[place][index].failures {
                    text += "\(entry.name), \(contender.name): \(failure)\n"
                }
            }
        }
        return text.isEmpty ? "" : "\nFailures:\n" + text
    }

    func seriesByName(_ place: Int) -> [String: Series] {
        var byName: [String: Series] = [:]
        for (index, contender) in cases[place].contenders.enumerated() { byName[contender.name] = series[place][index] }
        return byName
    }
}
