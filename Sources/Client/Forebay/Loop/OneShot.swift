// OneShot: a value that comes once, for tasks that wait for it.

import StreamsCore

final class OneShot<Value: Sendable>: @unchecked Sendable {
    private let lock = Lock()
    private var value: Value?
    private var waiters: [UnsafeContinuation<Value, Never>] = []

    /// The first value counts.
    func resolve(_ value: Value) {
        let waiters = lock.with { () -> [UnsafeContinuation<Value, Never>] in
            guard self.value == nil else { return [] }
            self.value = value
            defer { self.waiters = [] }
            return self.waiters
        }
        for waiter in waiters { waiter.resume(returning: value) }
    }

    /// Nil as long as there is none.
    var current: Value? { lock.with { value } }

    /// Waits, as long as it takes. Cancelling the task has no effect of its own: whoever resolves it has to be told.
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
