// publisher: publishes the elements of an asynchronous sequence.
//
//     demand ─→ pump ─→ task: waits for demand, then for an element ─→ subscriber
//
// The task takes an element from the sequence only if the subscriber has requested one. Nothing is buffered.

extension AsyncSequence where Self: Sendable {
    /// A publisher of these elements. Each subscriber has its own iterator in its own task, which starts with the first
    /// demand and is cancelled with the subscription.
    public var publisher: Publishers.AsyncElements<Self> { Publishers.AsyncElements(sequence: self) }
}

extension Publishers {
    /// See `AsyncSequence.publisher`.
    public struct AsyncElements<Base: AsyncSequence & Sendable>: Publisher {
        public typealias Output = Base.Element
        public typealias Failure = Base.Failure

        public let sequence: Base

        public init(sequence: Base) { self.sequence = sequence }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Runner(AsyncMachine(sequence), name: "AsyncElements", downstream: subscriber).begin()
        }
    }
}

private struct AsyncMachine<Base: AsyncSequence & Sendable>: StreamMachine {
    enum Signal {
        case value(Base.Element)
        case completion(Subscribers.Completion<Base.Failure>)
    }

    private let sequence: Base
    private let pump = Pump()
    private var task: Task<Void, Never>?

    init(_ sequence: Base) { self.sequence = sequence }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Base.Element, Base.Failure>) {
        pump.add(demand)
        guard task == nil, let inlet = outlet as? Inlet<Signal, Base.Element, Base.Failure> else { return }
        task = AsyncMachine.run(sequence, pump, Destination(inlet: inlet))
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Base.Element, Base.Failure>) {
        switch signal {
        case .value(let value): outlet.send(value)
        case .completion(let completion): outlet.send(completion: completion)
        }
    }

    mutating func stop(_ outlet: Outlet<Base.Element, Base.Failure>) {
        task?.cancel()
        pump.close()
    }

    /// An inlet can be used from any thread.
    private struct Destination: @unchecked Sendable {
        let inlet: Inlet<Signal, Base.Element, Base.Failure>
    }

    private static func run(_ sequence: Base, _ pump: Pump, _ destination: Destination) -> Task<Void, Never> {
        Task {
            var iterator = sequence.makeAsyncIterator()
            do throws(Base.Failure) {
                while await pump.take() {
                    guard let value = try await iterator.next(isolation: nil) else {
                        return destination.inlet.submit(.completion(.finished))
                    }
                    destination.inlet.submit(.value(value))
                }
            } catch {
                destination.inlet.submit(.completion(.failure(error)))
            }
        }
    }
}

/// The demand for which a task waits.
private final class Pump: @unchecked Sendable {
    private let lock = Lock()
    private var demand = Subscribers.Demand.none
    private var waiter: UnsafeContinuation<Bool, Never>?
    private var isClosed = false

    func add(_ demand: Subscribers.Demand) {
        let waiter = lock.with { () -> UnsafeContinuation<Bool, Never>? in
            self.demand += demand
            guard self.waiter != nil, self.demand > .none else { return nil }
            self.demand -= 1
            return self.waiter.take()
        }
        waiter?.resume(returning: true)
    }

    /// Waits until a value is requested.
    /// - Returns: false if the subscription has ended.
    func take() async -> Bool {
        await withUnsafeContinuation { continuation in
            let answer = lock.with { () -> Bool? in
                if isClosed { return false }
                guard demand > .none else {
                    waiter = continuation
                    return nil
                }
                demand -= 1
                return true
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    func close() {
        let waiter = lock.with {
            isClosed = true
            return self.waiter.take()
        }
        waiter?.resume(returning: false)
    }
}
