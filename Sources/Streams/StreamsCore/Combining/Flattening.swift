// Flattening: the values of several upstreams of one kind as one stream, as merge and flatMap make it.
//
// A subscriber that wants all there is gets each value as it comes. For one that asks for a number, each upstream is
// asked for one value at a time, so that none of them can crowd out another; those that come while nothing is wanted
// wait in order, one of each upstream at most. An upstream that has ended is there until its value has been delivered.

/// The upstreams and what waits of them: a part of machines.
struct Flattening<Output, Failure: Error> {
    private var upstreams: [Upstream] = []
    private var waiting = Queue<(value: Output, source: Upstream)>()
    /// The subscriber wants all there is, and so each upstream was told.
    private var isUnlimited = false

    /// There is no upstream, so nothing waits either.
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

    /// An upstream finished.
    /// - Returns: whether that leaves room for another.
    mutating func finish(_ source: Upstream) -> Bool {
        source.hasEnded = true
        if source.held == 0 { remove(source) }
        return source.held == 0
    }

    /// The subscriber asked for more.
    /// - Returns: for how many more upstreams there is room by that.
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

    /// Cancels all.
    mutating func stop() {
        for upstream in upstreams { upstream.cancel() }
        upstreams = []
        waiting.removeAll()
    }
}
