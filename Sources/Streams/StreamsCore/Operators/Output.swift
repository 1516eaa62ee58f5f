// prefix and output: the values at certain places of the stream. The stream ends with the last of them: who wants two
// is not left waiting, and upstream not kept, until there is a third.

extension Publisher {
    /// Publishes the first `maxLength` values, at least 0, and ends with the last of them.
    public func prefix(_ maxLength: Int) -> Publishers.Output<Self> { output(in: ..<maxLength) }

    /// Publishes the value at `index`, from 0 on, and ends.
    public func output(at index: Int) -> Publishers.Output<Self> { output(in: index...index) }

    /// Publishes the values at the places in `range`, from 0 on, and ends with the last of them.
    public func output<R: RangeExpression>(in range: R) -> Publishers.Output<Self> where R.Bound == Int {
        Publishers.Output(upstream: self, range: range.relative(to: 0..<Int.max))
    }
}

extension Publishers {
    /// See `Publisher.output(in:)`.
    public struct Output<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let range: CountableRange<Int>

        /// - Parameters:
        ///   - upstream: whose values are counted.
        ///   - range: places of values, from 0 on.
        public init(upstream: Upstream, range: CountableRange<Int>) {
            precondition(range.lowerBound >= 0 && range.upperBound >= 0, "Places are counted from 0.")
            self.upstream = upstream
            self.range = range
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = OutputBehavior<Output, Failure>(range: range)
            upstream.subscribe(Operator(behavior, name: "Output", downstream: subscriber))
        }
    }
}

extension Publishers.Output: Equatable where Upstream: Equatable {}

private struct OutputBehavior<Value, Failure: Error>: OperatorBehavior {
    let range: Range<Int>
    private var place = 0

    init(range: Range<Int>) { self.range = range }

    mutating func start(_ outlet: Outlet<Value, Failure>) {
        if range.isEmpty { outlet.send(completion: .finished) }
    }

    mutating func receive(_ input: Value, _ outlet: Outlet<Value, Failure>) {
        place += 1
        if place <= range.lowerBound {
            outlet.requestUpstream(.max(1))
        } else {
            outlet.send(input)
            if place >= range.upperBound { outlet.send(completion: .finished) }
        }
    }
}
