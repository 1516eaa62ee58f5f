// ReflectionCalls: a connection's calls of gRPC's reflection, and those of them whose requests wait.

struct ReflectionCalls {
    /// Calls that are open, at most `Limits.listingsPerConnection`.
    private(set) var count = 0
    /// Those of them with requests that wait until the answer before is sent.
    private(set) var waiting: [Exchange] = []

    /// A call has its first message.
    mutating func open(_ exchange: Exchange) {
        count += 1
        exchange.role = .reflection
    }

    /// The stream of an exchange is over, which may be a call of another method.
    mutating func close(_ exchange: Exchange) {
        guard exchange.role == .reflection else { return }
        exchange.role = .other
        count -= 1
        assert(count >= 0)
        waiting.removeAll { $0 === exchange }
    }

    /// A call has requests that wait for its answer to be sent.
    mutating func hold(_ exchange: Exchange) {
        assert(!waiting.contains { $0 === exchange })
        waiting.append(exchange)
    }

    /// Those that wait, which go on now.
    mutating func takeWaiting() -> [Exchange] {
        defer { waiting.removeAll() }
        return waiting
    }
}
