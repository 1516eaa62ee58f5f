// Flattening: merges the values of several upstreams of one type, for merge and flatMap.
//
// If the subscriber's demand is unlimited, values are passed on as they arrive. If it is limited, one value at a time
// is requested from each upstream, so that none can starve the others. Values that arrive without demand wait in order,
// at most one from each upstream. An upstream that has ended is kept until its value has been delivered.

/// The upstreams and their waiting values: a component of state machines.
struct Flattening<Output, Failure: Error> {
    private var upstreams: [Upstream] = []
    private var waiting = Queue<(value: Output, source: Upstream)>()
    /// Whether the subscriber's demand is unlimited and unlimited values have been requested from each upstream.
    private var isUnlimited = false

    /// Whether there are no upstreams, and therefore no waiting values.
    var isEmpty: Bool { upstreams.isEmpty }

    mutating func add(_ upstream: Upstream, _ outlet: Outlet<Output, Failure>) {
        upstream.index = upstreams.count
        upstreams.append(upstream)
        outlet.request(isUnlimited ? .unlimited : .max(1), of: upstream)
    }

    mutating func receive(_ value: Output, from source: Upstream, _ outlet: Outlet<Output, Failure>) {
        guard outlet.demand > .none, waiting.isEmpty else {
            source.held += 1
            return waiting.append((value, source))
        }
        outlet.send(value)
        if !isUnlimited { outlet.request(.max(1), of: source) }
    }

    /// Notes that an upstream has finished.
    /// - Returns: true if that makes room for another upstream.
    mutating func finish(_ source: Upstream) -> Bool {
        source.hasEnded = true
        if source.held == 0 { remove(source) }
        return source.held == 0
    }

    /// Sends waiting values after the subscriber has requested more.
    /// - Returns: the number of upstreams removed; there is room for the same number of new ones.
    mutating func request(_ outlet: Outlet<Output, Failure>) -> Int {
        var removed = 0
        while outlet.demand > .none, !outlet.isOver, let (value, source) = waiting.popFirst() {
            outlet.send(value)
            source.held -= 1
            if source.hasEnded, source.held == 0 {
                remove(source)
                removed += 1
            } else if !isUnlimited {
                outlet.request(.max(1), of: source)
            }
        }
        if outlet.demand == .unlimited, !isUnlimited {
            isUnlimited = true
            for upstream in upstreams { outlet.request(.unlimited, of: upstream) }
        }
        return removed
    }

    private mutating func remove(_ upstream: Upstream) {
        let last = upstreams.removeLast()
        guard last !== upstream else { return }
        upstreams[upstream.index] = last
        last.index = upstream.index
    }

    /// Cancels all upstreams.
    mutating func stop() {
        for upstream in upstreams { upstream.cancel() }
        upstreams = []
        waiting.removeAll()
    }
}
