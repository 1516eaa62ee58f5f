// OneShot: a value that is set once, for tasks that wait for it.

import StreamsCore

final class OneShot<Value: Sendable>: @unchecked Sendable {
    private let lock = Lock()
    private var value: Value?
    private var waiters: [UnsafeContinuation<Value, Never>] = []

    /// Sets the value; only the first one counts.
    func resolve(_ value: Value) {
        let waiters = lock.with { () -> [UnsafeContinuation<Value, Never>] in
            guard self.value == nil else { return [] }
            self.value = value
            defer { self.waiters = [] }
            return self.waiters
        }
        for waiter in waiters { waiter.resume(returning: value) }
    }

    /// The value; nil until it is set.
    var current: Value? { lock.with { value } }

    /// Waits without a time limit. Cancelling the task has no effect here: cancel whatever resolves the value.
    func wait() async -> Value {
        await withUnsafeContinuation { continuation in
            let known = lock.with { () -> Value? in
                if value == nil { waiters.append(continuation) }
                return value
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
