// ExchangeTable: the exchanges of a connection, and how many are in which state.

struct ExchangeTable {
    private var exchanges = Slab<Exchange>()
    /// Exchanges that have finished, except that a part of their response is not written yet.
    private(set) var unwritten = 0
    /// Exchanges that have ended completely.
    private(set) var done: UInt64 = 0
    /// Exchanges bound to subscriptions and channels, which may last.
    private(set) var lasting = 0
    /// Since when no more than a few responses were written while memory is short, and the value of `done` at that
    /// time.
    var holdsBack: (since: UInt64, done: UInt64)?

    var count: Int { exchanges.count }
    var all: [Exchange] { (0..<exchanges.bound).compactMap { exchanges.at($0) } }

    subscript(index: UInt32) -> Exchange? {
        Int(index) < exchanges.bound ? exchanges.at(Int(index)) : nil
    }

    /// Like the subscript, but does not retain the exchange; valid until an exchange ends.
    @inline(__always)
    func unretained(_ index: UInt32) -> Unmanaged<Exchange>? {
        Int(index) < exchanges.bound ? exchanges.unretained(at: Int(index)) : nil
    }

    mutating func insert(_ make: (Handle) -> Exchange) -> Exchange { exchanges.insert(make) }

    /// Counts an exchange that has finished, except for writing the rest of its response.
    mutating func noteFinished() { unwritten += 1 }

    /// Removes a finished exchange that has ended completely.
    mutating func remove(_ exchange: Exchange) {
        assert(exchange.isFinished && unwritten > 0)
        unwritten -= 1
        done &+= 1
        exchanges.remove(exchange.handle)
    }

    /// Counts a subscription or channel of an exchange that begins or ends.
    mutating func countLasting(_ change: Int) {
        lasting += change
        assert(lasting >= 0)
    }

    /// The number of places that `forEach` visits, without making an array.
    var places: Int { exchanges.bound }
    func forEach(_ body: (Exchange) -> Void) {
        for place in 0..<places { exchanges.at(place).map(body) }
    }
}
