// Behaviors shared by many operators: those that produce at most one value for each value, and those that reduce a
// stream to one value. Each is defined by a function of a state and a value; if the function throws, the stream fails.

/// The result for one value.
enum Step<Output> {
    case send(Output)
    /// No value; another value is requested in its place.
    case skip
    case finish
    /// The last value.
    case sendAndFinish(Output)
}

struct StepBehavior<State, Input, InputFailure: Error, Output, OutputFailure: Error>: OperatorBehavior {
    private var state: State
    private let convert: (InputFailure) -> OutputFailure
    private let step: (inout State, Input) throws(OutputFailure) -> Step<Output>

    init(
        _ state: State, failure convert: @escaping (InputFailure) -> OutputFailure,
        _ step: @escaping (inout State, Input) throws(OutputFailure) -> Step<Output>
    ) {
        self.state = state
        self.convert = convert
        self.step = step
    }

    mutating func receive(_ input: Input, _ outlet: Outlet<Output, OutputFailure>) {
        do throws(OutputFailure) {
            switch try step(&state, input) {
            case .send(let value): outlet.send(value)
            case .skip: outlet.requestUpstream(.max(1))
            case .finish: outlet.send(completion: .finished)
            case .sendAndFinish(let value):
                outlet.send(value)
                outlet.send(completion: .finished)
            }
        } catch {
            outlet.send(completion: .failure(error))
        }
    }

    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>
    ) {
        outlet.send(completion: completion.mapFailure(convert))
    }
}

extension StepBehavior where InputFailure == OutputFailure {
    init(
        _ state: State, _ step: @escaping (inout State, Input) throws(OutputFailure) -> Step<Output>
    ) {
        self.init(state, failure: { $0 }, step)
    }
}

extension StepBehavior where OutputFailure == any Error {
    /// Any failure is an `Error`.
    init(trying state: State, _ step: @escaping (inout State, Input) throws(any Error) -> Step<Output>) {
        self.init(state, failure: { $0 }, step)
    }
}

/// Requests unlimited values from upstream, updates a state, and sends at most one value, which waits for demand.
struct SummaryBehavior<State, Input, InputFailure: Error, Output, OutputFailure: Error>: OperatorBehavior {
    enum Step {
        case more
        /// The result is known.
        case enough
    }

    private var state: State
    private var isComplete = false
    private let convert: (InputFailure) -> OutputFailure
    private let step: (inout State, Input) throws(OutputFailure) -> Step
    private let result: (State) -> Output?

    init(
        _ state: State, failure convert: @escaping (InputFailure) -> OutputFailure,
        _ step: @escaping (inout State, Input) throws(OutputFailure) -> Step,
        result: @escaping (State) -> Output?
    ) {
        self.state = state
        self.convert = convert
        self.step = step
        self.result = result
    }

    mutating func start(_ outlet: Outlet<Output, OutputFailure>) { outlet.requestUpstream(.unlimited) }

    mutating func receive(_ input: Input, _ outlet: Outlet<Output, OutputFailure>) {
        guard !isComplete else { return }
        do throws(OutputFailure) {
            if case .enough = try step(&state, input) {
                isComplete = true
                outlet.cancelUpstream()
                deliver(outlet)
            }
        } catch {
            outlet.send(completion: .failure(error))
        }
    }

    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>
    ) {
        guard !isComplete else { return }
        switch completion {
        case .finished:
            isComplete = true
            deliver(outlet)
        case .failure(let failure):
            outlet.send(completion: .failure(convert(failure)))
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, OutputFailure>) {
        if isComplete { deliver(outlet) }
    }

    private func deliver(_ outlet: Outlet<Output, OutputFailure>) {
        guard let value = result(state) else { return outlet.send(completion: .finished) }
        guard outlet.demand > .none else { return }
        outlet.send(value)
        outlet.send(completion: .finished)
    }
}

extension SummaryBehavior where InputFailure == OutputFailure {
    init(
        _ state: State, _ step: @escaping (inout State, Input) throws(OutputFailure) -> Step,
        result: @escaping (State) -> Output?
    ) {
        self.init(state, failure: { $0 }, step, result: result)
    }
}

extension SummaryBehavior where OutputFailure == any Error {
    /// Any failure is an `Error`.
    init(
        trying state: State, _ step: @escaping (inout State, Input) throws(any Error) -> Step,
        result: @escaping (State) -> Output?
    ) {
        self.init(state, failure: { $0 }, step, result: result)
    }
}
