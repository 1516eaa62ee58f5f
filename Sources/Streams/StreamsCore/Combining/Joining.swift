// Joining: implements zip and combineLatest for any number of publishers.

/// Zips the upstreams that `build` adds. The closure that it returns takes one value from each and combines them.
func zipAll<S: Subscriber>(
    to subscriber: S, _ build: @escaping (inout Sides<S.Input, S.Failure>) -> () -> S.Input
) {
    Runner(ZipMachine(build), name: "Zip", downstream: subscriber).begin()
}

/// Like `zipAll`, for the latest values.
func combineAll<S: Subscriber>(
    to subscriber: S, _ build: @escaping (inout Sides<S.Input, S.Failure>) -> () -> S.Input
) {
    Runner(CombineLatestMachine(build), name: "CombineLatest", downstream: subscriber).begin()
}

private struct ZipMachine<Output, Failure: Error>: StreamMachine {
    typealias Signal = ArrivalSignal<Failure>
    typealias Build = (inout Sides<Output, Failure>) -> () -> Output

    private let build: Build
    private var next: (() -> Output)?
    private var sides: [Upstream] = []

    init(_ build: @escaping Build) { self.build = build }

    mutating func open(_ inlet: Inlet<Signal, Output, Failure>) {
        var sides = Sides(inlet)
        next = build(&sides)
        self.sides = sides.upstreams
        sides.start()
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .arrival(let side):
            side.held += 1
            deliver(outlet)
        case .completion(.finished, let side):
            side.hasEnded = true
            finishIfDone(outlet)
        case .completion(let failure, _):
            outlet.send(completion: failure)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        for side in sides { outlet.request(demand, of: side) }
    }

    /// Delivers complete combinations. No upstream has more waiting values than the subscriber has requested.
    private func deliver(_ outlet: Outlet<Output, Failure>) {
        guard let next, outlet.demand > .none, sides.allSatisfy({ $0.held > 0 }) else { return }
        for side in sides { side.held -= 1 }
        outlet.send(next())
        finishIfDone(outlet)
    }

    private func finishIfDone(_ outlet: Outlet<Output, Failure>) {
        if sides.contains(where: { $0.hasEnded && $0.held == 0 }) { outlet.send(completion: .finished) }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) {
        for side in sides { side.cancel() }
        sides = []
        next = nil
    }
}

private struct CombineLatestMachine<Output, Failure: Error>: StreamMachine {
    typealias Signal = ArrivalSignal<Failure>
    typealias Build = (inout Sides<Output, Failure>) -> () -> Output

    private let build: Build
    private var latest: (() -> Output)?
    private var sides: [Upstream] = []
    /// Whether there is a combination for which the subscriber has no demand yet.
    private var isWaiting = false

    init(_ build: @escaping Build) { self.build = build }

    mutating func open(_ inlet: Inlet<Signal, Output, Failure>) {
        var sides = Sides(inlet)
        latest = build(&sides)
        self.sides = sides.upstreams
        sides.start()
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .arrival(let side):
            side.advance()
            side.held = 1
            side.asked -= 1
            isWaiting = sides.allSatisfy { $0.held > 0 }
            if isWaiting {
                deliver(outlet)
            } else if side.asked < outlet.demand {
                // Nothing was delivered: this upstream must also serve the remaining demand.
                request(.max(1), of: side, outlet)
            }
        case .completion(.finished, let side):
            side.hasEnded = true
            finishIfDone(outlet)
        case .completion(let failure, _):
            outlet.send(completion: failure)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        deliver(outlet)
        for side in sides { request(demand, of: side, outlet) }
    }

    private func request(_ demand: Subscribers.Demand, of side: Upstream, _ outlet: Outlet<Output, Failure>) {
        side.asked += demand
        outlet.request(demand, of: side)
    }

    private mutating func deliver(_ outlet: Outlet<Output, Failure>) {
        guard isWaiting, outlet.demand > .none, let latest else { return }
        isWaiting = false
        outlet.send(latest())
        finishIfDone(outlet)
    }

    private func finishIfDone(_ outlet: Outlet<Output, Failure>) {
        if !isWaiting, sides.allSatisfy(\.hasEnded) { outlet.send(completion: .finished) }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) {
        for side in sides { side.cancel() }
        sides = []
        latest = nil
    }
}
