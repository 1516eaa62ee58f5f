// SharedCatalogue: the cases with topics that nodes share over NATS JetStream.

extension Catalogue {
    static let shared: [Case] = fanOuts + pacedFanOuts + [latency, topics]

    /// Deliveries per second at a fixed rate, so low that each message is sent alone. Messages that are sent together
    /// cost much less, and whether they are depends more on the scheduler than on the broker.
    private static let paced = 50_000

    private static let pacedFanOuts: [Case] = [100, 1000].map { count in
        let rate = paced / count
        return Case(
            name: "shared-paced-\(count)",
            title: "the same with \(rate) messages/s",
            contenders: [Contender(system: .forebay), Contender(system: .forebay, isShared: true)],
            kind: .latency(Latency(subscribers: count, schedule: .rate(Double(rate)))), compared: .cpuPerDelivery,
            goals: [Goal(.ratio("forebay shared", over: "forebay"), .cpuPerDelivery, .atMost(1.2))])
    }

    /// Both acknowledge publishes once a majority of the servers has stored the message.
    private static let latency = Case(
        name: "shared-latency",
        title: "200 messages/s, from one node to another, or from one server of NATS to another",
        contenders: [Contender(system: .forebay, isShared: true), Contender(system: .nats, storage: .unsynced)],
        kind: .cluster(Latency(subscribers: 1, schedule: .rate(200))), compared: .p50,
        goals: [Goal(.ratio("forebay shared", over: "nats unsynced"), .p50, .atMost(1.5))])

    private static let topics = Case(
        name: "shared-topics-1000", title: "a node joins 1,000 shared topics of one message each",
        contenders: [Contender(system: .forebay, isShared: true)],
        kind: .sharedTopics(1000), compared: .seconds,
        goals: [
            Goal(.value("forebay shared"), .connections, .atMost(2)),
            Goal(.value("forebay shared"), .lost, .atMost(0)),
        ])

    private static let fanOuts: [Case] = [100, 1000].map { count in
        Case(
            name: "shared-fanout-\(count)",
            title: "\(count) subscribers, 128 B, of a topic in memory and of a shared one",
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
