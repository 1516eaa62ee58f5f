// Catalogue: all cases.

enum Catalogue {
    /// The largest number of connections that a single case uses.
    static let connections = 20_000

    /// The columns for a case's name.
    static let nameWidth = 20

    static let cases: [Case] =
        fanOuts + wideFanOuts + variations + [acknowledged] + durable + shared + [threads] + latencies + [
            stalled, retained, idle,
        ]
        + [iteration, topics, churn] + patterns + http

    private static func all(_ systems: [System]) -> [Contender] { systems.map { Contender(system: $0) } }

    private static func ratio(_ a: String, _ b: String, _ bound: Goal.Bound) -> Goal {
        Goal(.ratio(a, over: b), .cpuPerDelivery, bound)
    }

    private static let fanOuts: [Case] = [
        (1, 1.5, 4.0, 4.0), (10, 1.3, 6.0, 6.0), (100, 1.3, 9.0, 5.0), (1000, 1.3, 12.0, 6.0),
    ].map { (count, pump, nats, redis) in
        Case(
            name: "fanout-\(count)", title: "\(count) subscriber\(count == 1 ? "" : "s"), 128 B",
            contenders: all([.forebay, .pump, .nats, .redis, .mosquitto]),
            kind: .throughput(Throughput(subscribers: count)), compared: .cpuPerDelivery,
            goals: [
                ratio("forebay", "pump", .atMost(pump)), ratio("nats", "forebay", .atLeast(nats)),
                ratio("redis", "forebay", .atLeast(redis)),
            ])
    }

    /// A delivery must cost the same regardless of the number of subscribers.
    private static let wideFanOuts: [Case] = [5000, 9000].map { count in
        Case(
            name: "fanout-\(count)", title: "\(count) subscribers, 128 B, and 1,000 for comparison",
            contenders: all([.forebay]) + [Contender(system: .forebay, subscribers: 1000)] + all([.nats, .redis]),
            kind: .throughput(Throughput(subscribers: count)), compared: .cpuPerDelivery,
            goals: [ratio("forebay", "forebay 1000 subscribers", .atMost(1.5))])
    }

    private static let variations: [Case] = [
        Case(
            name: "streams-100", title: "100 subscribers, each with a different stream id",
            contenders: all([.forebay, .nats]),
            kind: .throughput(Throughput(subscribers: 100, ownStreams: true)), compared: .cpuPerDelivery,
            goals: [ratio("nats", "forebay", .atLeast(6))]),
        Case(
            name: "window-100", title: "100 subscribers, credit window 256, refilled at half",
            contenders: all([.forebay, .nats]),
            kind: .throughput(Throughput(subscribers: 100, window: 256)), compared: .cpuPerDelivery,
            goals: [ratio("nats", "forebay", .atLeast(6))]),
        Case(
            name: "small-10", title: "10 subscribers, 16 B", contenders: all([.forebay, .pump, .nats, .redis]),
            kind: .throughput(Throughput(subscribers: 10, payload: 16)), compared: .cpuPerDelivery,
            goals: [ratio("nats", "forebay", .atLeast(1)), ratio("redis", "forebay", .atLeast(1))]),
        Case(
            name: "large-10", title: "10 subscribers, 16 KiB", contenders: all([.forebay, .pump, .nats, .redis]),
            kind: .throughput(Throughput(subscribers: 10, payload: 16 << 10)), compared: .cpuPerDelivery,
            goals: [ratio("nats", "forebay", .atLeast(1)), ratio("redis", "forebay", .atLeast(1))]),
    ]

    private static let http: [Case] = [
        Case(
            name: "grpc-100",
            title: "100 subscribers, 128 B, over RSocket and gRPC; grpcio: one message, or up to 256, a response",
            contenders: all([.forebay, .forebayHTTP, .grpcio]) + [Contender(system: .grpcio, perResponse: 256)],
            kind: .throughput(Throughput(subscribers: 100)), compared: .cpuPerDelivery,
            goals: [
                ratio("forebay-http", "forebay", .atMost(2)), ratio("grpcio", "forebay-http", .atLeast(20)),
            ]),
        Case(
            name: "grpc-window", title: "100 subscribers, credit window 256, refilled at half",
            contenders: all([.forebay, .forebayHTTP]),
            kind: .throughput(Throughput(subscribers: 100, window: 256)), compared: .cpuPerDelivery,
            goals: [ratio("forebay-http", "forebay", .atMost(2))]),
        Case(
            name: "post", title: "publishes of 128 B by POST, and requests for a file of 128 B",
            contenders: all([.forebayHTTP, .nghttpd, .h2o]), kind: .requests(Requests()),
            compared: .requestsPerCPUSecond,
            // Relative to the server that uses the same library; h2o is shown for information.
            goals: [Metric.requestsPerCPUSecond, .requestsPerSecond].map {
                Goal(.ratio("forebay-http", over: "nghttpd"), $0, .atLeast(0.5))
            }),
    ]

    private static let acknowledged = Case(
        name: "acked-64", title: "acknowledged publishes, 64 in flight, 1 subscriber",
        contenders: [Contender(system: .forebay), Contender(system: .nats, acknowledges: true)],
        kind: .acknowledged(Acknowledged(inFlight: 64, hasSubscriber: true)), compared: .acknowledgementsPerCPUSecond,
        goals: [Goal(.ratio("forebay", over: "nats"), .acknowledgementsPerCPUSecond, .atLeast(1))])

    private static let threads = Case(
        name: "threads-2", title: "8 topics × 20 subscribers",
        contenders: [Contender(system: .forebay), Contender(system: .forebay, threads: 2)],
        kind: .throughput(Throughput(topics: 8, subscribers: 20)), compared: .cpuPerDelivery,
        goals: [
            ratio("forebay 2 threads", "forebay", .atMost(1.15)),
            Goal(.ratio("forebay 2 threads", over: "forebay"), .deliveriesPerSecond, .atLeast(1.6), cpus: 2),
        ])

    private static func latencyGoals(_ metrics: [Metric], _ bound: Double) -> [Goal] {
        metrics.flatMap { metric in
            ["nats", "redis"].map { Goal(.ratio("forebay", over: $0), metric, .atMost(bound)) }
        }
    }

    private static let latencies: [Case] = [
        Case(
            name: "open-10", title: "open loop, 20,000 messages/s × 10 subscribers",
            contenders: all([.forebay, .nats, .redis]),
            kind: .latency(Latency(subscribers: 10, schedule: .rate(20_000))), compared: .p99,
            goals: latencyGoals([.p50, .p99, .p999], 1.1)),
        Case(
            name: "open-half-10", title: "open loop, half of NATS's maximum × 10 subscribers",
            contenders: all([.forebay, .nats, .redis]),
            kind: .latency(Latency(subscribers: 10, schedule: .halfOfNATS)), compared: .p99,
            goals: latencyGoals([.p50, .p99, .p999], 1.1)),
        Case(
            name: "single-100", title: "one message in flight, 100 subscribers",
            contenders: all([.forebay, .nats, .redis]),
            kind: .latency(Latency(subscribers: 100, schedule: .oneInFlight)), compared: .p99,
            goals: latencyGoals([.p99], 1)),
    ]

    private static let stalled = Case(
        name: "stalled-10", title: "100 subscribers, 1 KiB, without and with 10 more that never read",
        contenders: [System.forebay, .nats, .redis].flatMap {
            [Contender(system: $0), Contender(system: $0, stalled: 10)]
        },
        kind: .throughput(Throughput(subscribers: 100, payload: 1 << 10)), compared: .deliveriesPerSecond,
        goals: [
            Goal(.ratio("forebay +10 stalled", over: "forebay"), .deliveriesPerSecond, .atLeast(0.97)),
            Goal(.difference("forebay +10 stalled", minus: "forebay"), .peak, .atMost(32 * 1024 * 1024)),
            Goal(.value("forebay +10 stalled"), .disconnected, .atMost(0)),
        ])

    /// Limits for a million messages.
    private static let retaining = ["--retain", "1000000", "--retain-bytes", "1G", "--memory", "2G"]

    private static let retained = Case(
        name: "retained-64", title: "1,000,000 retained, 64 join with replay=all, window 1,024",
        contenders: [Contender(system: .forebay, arguments: Catalogue.retaining)],
        kind: .retained(messages: 1_000_000, subscribers: 64, window: 1024, payload: 128), compared: .seconds,
        goals: [
            Goal(.value("forebay"), .lost, .atMost(0)), Goal(.value("forebay"), .disconnected, .atMost(0)),
        ])

    /// Messages that arrive together must cause only one wake-up.
    private static let iteration = Case(
        name: "iteration", title: "1,000,000 retained, received through the library in four ways",
        contenders: Taking.allCases.map { Contender(system: .forebay, taking: $0, arguments: Catalogue.retaining) },
        kind: .iteration(messages: 1_000_000, payload: 128), compared: .perMessage,
        goals: ["for-await", "values", "map-values"].map {
            Goal(.ratio("forebay \($0)", over: "forebay sink"), .perMessage, .atMost(4))
        })

    private static let topics = Case(
        name: "topics-100000",
        title: "1 subscriber, 128 B, without and with 99,000 other topics, one subscription each",
        contenders: [Contender(system: .forebay), Contender(system: .forebay, otherTopics: 99_000)],
        kind: .topics(payload: 128), compared: .cpuPerDelivery,
        goals: [
            Goal(.value("forebay +99000 topics"), .rest, .atMost(0.01)),
            ratio("forebay +99000 topics", "forebay", .atMost(1.1)),
        ])

    private static let churn = Case(
        name: "churn", title: "one publish at a time, without and with 60 clients that subscribe and cancel",
        contenders: [Contender(system: .forebay), Contender(system: .forebay, churners: 60)],
        kind: .churn, compared: .p99,
        goals: [
            Goal(.value("forebay +60 churning"), .p99, .atMost(10_000_000)),
            Goal(.ratio("forebay +60 churning", over: "forebay"), .p99, .atMost(5)),
        ])

    private static let idle = Case(
        name: "idle-20000", title: "20,000 idle connections, one subscription each",
        contenders: [System.forebay, .nats, .redis, .mosquitto].map { Contender(system: $0, connections: connections) },
        kind: .idle(connections: connections), compared: .perSubscriber,
        goals: [Goal(.value("forebay"), .perSubscriber, .atMost(3 * 1024))])
}
