// prefix and output: values selected by index. The stream finishes together with the last of them, so a subscriber that
// wants two values does not wait for a third, and upstream is cancelled without one.

extension Publisher {
    /// Publishes the first `maxLength` values, at least 0, and finishes with the last of them.
    public func prefix(_ maxLength: Int) -> Publishers.Output<Self> { output(in: ..<maxLength) }

    /// Publishes the value at `index`, counted from 0, then finishes.
    public func output(at index: Int) -> Publishers.Output<Self> { output(in: index...index) }

    /// Publishes the values with indices in `range`, counted from 0, and finishes with the last of them.
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
        ///   - upstream: the publisher whose values are counted.
        ///   - range: indices of values, counted from 0.
        public init(upstream: Upstream, range: CountableRange<Int>) {
            precondition(range.lowerBound >= 0 && range.upperBound >= 0, "An index cannot be negative.")
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
