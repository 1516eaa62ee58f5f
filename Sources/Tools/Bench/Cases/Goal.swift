// Goal: a bound that the result of a case must meet.

struct Goal {
    enum Quantity {
        /// One contender's median divided by another's.
        case ratio(String, over: String)
        case difference(String, minus: String)
        case value(String)
    }

    enum Bound {
        case atMost(Double)
        case atLeast(Double)
    }

    var quantity: Quantity
    var metric: Metric
    var bound: Bound
    /// The number of CPUs, besides the generator's, that the goal requires to be meaningful.
    var cpus: Int

    init(_ quantity: Quantity, _ metric: Metric, _ bound: Bound, cpus: Int = 1) {
        self.quantity = quantity
        self.metric = metric
        self.bound = bound
        self.cpus = cpus
    }

    /// The result; nil if a contender was not measured.
    func outcome(_ series: [String: Series]) -> Double? {
        func median(_ name: String) -> Double? { series[name]?.median(metric) }
        switch quantity {
        case .ratio(let a, let b):
            guard let first = median(a), let second = median(b), second != 0 else { return nil }
            return first / second
        case .difference(let a, let b):
            guard let first = median(a), let second = median(b) else { return nil }
            return first - second
        case .value(let name): return median(name)
        }
    }

    func isReached(by outcome: Double) -> Bool {
        switch bound {
        case .atMost(let most): return outcome <= most
        case .atLeast(let least): return outcome >= least
        }
    }

    var title: String {
        switch quantity {
        case .ratio(let a, let b): return "\(a) ÷ \(b), \(metric.rawValue)"
        case .difference(let a, let b): return "\(a) − \(b), \(metric.rawValue)"
        case .value(let name): return "\(name), \(metric.rawValue)"
        }
    }
}
