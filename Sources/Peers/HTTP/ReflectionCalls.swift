// ReflectionCalls: a connection's gRPC reflection calls, and which of them have waiting requests.

struct ReflectionCalls {
    /// Open calls, at most `Limits.listsPerConnection`.
    private(set) var count = 0
    /// Calls with requests that wait until the previous response is sent.
    private(set) var waiting: [Exchange] = []

    /// Counts a call that has received its first message.
    mutating func open(_ exchange: Exchange) {
        count += 1
        exchange.role = .reflection
    }

    /// Removes an exchange whose stream has ended; it may be a call of another method.
    mutating func close(_ exchange: Exchange) {
        guard exchange.role == .reflection else { return }
        exchange.role = .other
        count -= 1
        assert(count >= 0)
        waiting.removeAll { $0 === exchange }
    }

    /// Adds a call with requests that wait for its response to be sent.
    mutating func hold(_ exchange: Exchange) {
        assert(!waiting.contains { $0 === exchange })
        waiting.append(exchange)
    }

    /// Removes and returns the waiting calls, which continue now.
    mutating func takeWaiting() -> [Exchange] {
        defer { waiting.removeAll() }
        return waiting
    }
}
