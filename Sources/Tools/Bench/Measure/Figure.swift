// Figure: the results of one run of one case on one system, and the aggregate of several runs.

import Measure

/// A metric. Its raw value is its name in the JSON.
enum Metric: String, CaseIterable {
    case cpuPerDelivery = "cpu_ns_per_delivery"
    case cpuPerAcknowledgement = "cpu_ns_per_ack"
    case acknowledgementsPerSecond = "acks_per_second"
    case acknowledgementsPerCPUSecond = "acks_per_cpu_second"
    case cpuPerRequest = "cpu_ns_per_request"
    case requestsPerCPUSecond = "requests_per_cpu_second"
    case requestsPerSecond = "requests_per_second"
    case deliveriesPerSecond = "deliveries_per_second"
    case batch = "messages_per_read"
    case utilisation = "broker_cpu_per_wall"
    case rest = "broker_cpu_per_wall_at_rest"
    case pairs = "pairs_per_second"
    case generator = "generator_cpu_per_wall"
    case brokerWaited = "broker_waited_for_cpu_per_wall"
    case generatorWaited = "generator_waited_for_cpu_per_wall"
    case resident = "rss_bytes"
    case peak = "peak_rss_bytes"
    case perSubscriber = "rss_bytes_per_subscriber"
    case growth = "rss_growth_bytes"
    case anonymousGrowth = "rss_anon_growth_bytes"
    case perTopic = "rss_anon_bytes_per_topic"
    case lost = "lost"
    case dropped = "dropped"
    case disconnected = "disconnected"
    case p50 = "p50_ns"
    case p99 = "p99_ns"
    /// Without the case's other load, and how many times as long it takes with it.
    case p99Alone = "p99_ns_alone"
    case slowdown = "p99_over_alone"
    case p999 = "p99_9_ns"
    case p9999 = "p99_99_ns"
    case maximum = "max_ns"
    case seconds = "seconds"
    case connections = "connections"
    case rate = "messages_per_second"
    case perMessage = "ns_per_message"
}

struct Figure {
    private(set) var values: [Metric: Double] = [:]

    subscript(metric: Metric) -> Double? {
        get { values[metric] }
        set { values[metric] = newValue }
    }

    mutating func set(_ histogram: Histogram) {
        guard histogram.count > 0 else { return }
        self[.p50] = Double(histogram.value(at: 0.5))
        self[.p99] = Double(histogram.value(at: 0.99))
        self[.p999] = Double(histogram.value(at: 0.999))
        self[.p9999] = Double(histogram.value(at: 0.9999))
        self[.maximum] = Double(histogram.maximum)
    }
}

/// The runs of one case on one system.
struct Series {
    var figures: [Figure] = []
    /// Why runs failed.
    var failures: [String] = []

    func values(_ metric: Metric) -> [Double] { figures.compactMap { $0[metric] } }

    func median(_ metric: Metric) -> Double? { Statistics.median(values(metric)) }

    /// How far the runs differ: the largest minus the smallest value, as a fraction of the median. Nil for a single
    /// run.
    func spread(_ metric: Metric) -> Double? { Statistics.spread(values(metric)) }
}

enum Statistics {
    static func median(_ values: [Double]) -> Double? {
        guard !values.isEmpty else { return nil }
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }

    static func spread(_ values: [Double]) -> Double? {
        guard values.count > 1, let median = median(values), median > 0, let least = values.min(),
            let most = values.max()
        else {
            return nil
        }
        return (most - least) / median
    }
}
