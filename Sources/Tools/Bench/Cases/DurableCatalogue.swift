// DurableCatalogue: the cases with stored messages.

extension Catalogue {
    static let durable: [Case] =
        [1, 64, 4096].map { inFlight in
            stored(
                "durable-\(inFlight)",
                "acknowledged publishes of 128 B to a stored topic, "
                    + "\(Text.number(Double(inFlight), decimals: 0)) in flight",
                Acknowledged(inFlight: inFlight), yardstick: inFlight == 1)
        } + [
            stored(
                "durable-topics", "acknowledged publishes of 128 B to 1,000 stored topics in turn, 1,000 in flight",
                Acknowledged(inFlight: 1000, topics: 1000), yardstick: false),
            Case(
                name: "durable-fanout-100", title: "100 subscribers, 128 B, of a topic in memory and of stored ones",
                contenders: [Contender(system: .forebay)] + storing(.forebay),
                kind: .throughput(Throughput(subscribers: 100)), compared: .cpuPerDelivery,
                goals: [Goal(.ratio("forebay synced", over: "forebay"), .cpuPerDelivery, .atMost(1.15))]),
            joiners, start,
        ]

    /// The first row replays the same messages from memory.
    private static let joiners: Case = {
        let limits = ["--retain", "10000000", "--retain-bytes", "4G"]
        return Case(
            name: "durable-joiners",
            title: "10,000,000 messages in memory, and stored: 64 replay all; 1,000/s to 1 of another topic",
            contenders: [
                Contender(system: .forebay, arguments: limits + ["--memory", "8G"]),
                Contender(
                    system: .forebay, arguments: limits + ["--store-bytes", "8G"], storage: .synced, stored: "bench0"),
            ],
            kind: .joiners(Joiners(messages: 10_000_000, count: 64)), compared: .p99,
            goals: [
                Goal(.value("forebay synced"), .lost, .atMost(0)),
                Goal(.value("forebay synced"), .anonymousGrowth, .atMost(128 * 1024 * 1024)),
                Goal(.value("forebay synced"), .slowdown, .atMost(1.5)),
            ])
    }()

    private static let start = Case(
        name: "durable-start", title: "start with 100,000 stored topics of one message each, to the first answer",
        contenders: [
            Contender(
                system: .forebay, arguments: ["--max-topics", "200000", "--max-topics-per-user", "200000"],
                storage: .synced)
        ],
        kind: .start(topics: 100_000), compared: .seconds,
        goals: [
            Goal(.value("forebay synced"), .seconds, .atMost(2)),
            Goal(.value("forebay synced"), .perTopic, .atMost(1024)),
            Goal(.value("forebay synced"), .lost, .atMost(0)),
        ])

    private static func storing(_ system: System) -> [Contender] {
        [Storage.synced, .unsynced].map { Contender(system: system, storage: $0) }
    }

    /// - Parameter yardstick: whether to measure commits of LMDB too, which has no group of messages in flight.
    private static func stored(
        _ name: String, _ title: String, _ acknowledged: Acknowledged, yardstick: Bool
    ) -> Case {
        let (rate, work) = (Metric.acknowledgementsPerSecond, Metric.acknowledgementsPerCPUSecond)
        let nats = Goal.Quantity.ratio("forebay synced", over: "nats synced")
        var entry = Case(
            name: name, title: title, contenders: [System.forebay, .nats, .redis].flatMap(storing),
            kind: .acknowledged(acknowledged), compared: rate,
            goals: [Goal(nats, rate, .atLeast(5)), Goal(nats, work, .atLeast(5))])
        if yardstick {
            entry.contenders.append(Contender(system: .lmdb, storage: .synced))
            entry.goals = [Goal(.ratio("forebay synced", over: "lmdb synced"), rate, .atLeast(0.5))]
        }
        return entry
    }
}
