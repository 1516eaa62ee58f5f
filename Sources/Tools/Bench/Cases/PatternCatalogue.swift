// PatternCatalogue: the cases with many topics and subscribers of patterns.

extension Catalogue {
    static let patterns: [Case] = [cost, idleMatches, fairness]

    private static let cost = Case(
        name: "patterns-100", title: "1,000 topics in turn, 128 B, to 100 subscribers of a pattern, or of each topic",
        contenders: [
            Contender(system: .forebay), Contender(system: .forebay, interest: .topics),
            Contender(system: .forebay, interest: .topicsMeta), Contender(system: .nats), Contender(system: .redis),
        ],
        kind: .patterns(Patterns(topics: 1000, subscribers: 100)), compared: .cpuPerDelivery,
        goals: [Goal(.ratio("forebay", over: "forebay each topic"), .cpuPerDelivery, .atMost(2))])

    private static let idleMatches: Case = {
        let limits = ["--max-patterns", "20000"]
        return Case(
            name: "patterns-idle",
            title: "10 topics in turn, 128 B, to 10 subscribers of a pattern, without and with 9,990 idle topics that "
                + "match and subscriptions to 10,000 other patterns",
            contenders: [
                Contender(system: .forebay, arguments: limits),
                Contender(system: .forebay, otherTopics: 9990, otherPatterns: 10_000, arguments: limits),
            ],
            kind: .patterns(Patterns(topics: 10, subscribers: 10)), compared: .cpuPerDelivery,
            goals: [
                Goal(.ratio("forebay +9990 topics +10000 patterns", over: "forebay"), .cpuPerDelivery, .atMost(1.1))
            ])
    }()

    private static let fairness = Case(
        name: "patterns-fair",
        title: "100 subscribers of a pattern, window 16: 999 topics of 0.4 messages/s, without and with one of 400/s",
        contenders: [Contender(system: .forebay)],
        kind: .fairness(Patterns(topics: 1000, subscribers: 100, window: 16)), compared: .p99,
        goals: [
            Goal(.value("forebay"), .lost, .atMost(0)), Goal(.value("forebay"), .slowdown, .atMost(2)),
        ])
}
