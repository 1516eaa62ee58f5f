// SharedCatalogue: the cases with topics that nodes share over NATS JetStream.

extension Catalogue {
    static let shared: [Case] = [100, 1000].map { count in
        Case(
            name: "shared-fanout-\(count)",
            title:
                "\(Text.number(Double(count), decimals: 0)) subscribers, 128 B, of a topic in memory and of a shared one",
            contenders: [
                Contender(system: .forebay), Contender(system: .forebay, isShared: true), Contender(system: .nats),
            ],
            kind: .throughput(Throughput(subscribers: count)), compared: .cpuPerDelivery,
            goals: [
                Goal(.ratio("forebay shared", over: "forebay"), .cpuPerDelivery, .atMost(1.2)),
                Goal(.ratio("forebay shared", over: "forebay"), .deliveriesPerSecond, .atLeast(1 / 1.2)),
            ])
    }
}
