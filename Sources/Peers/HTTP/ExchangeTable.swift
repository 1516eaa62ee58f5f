// ExchangeTable: the exchanges of a connection, and how many of them are how far.

struct ExchangeTable {
    private var exchanges = Slab<Exchange>()
    /// Exchanges that are over but for what is still to be written of their answers.
    private(set) var unwritten = 0
    /// Exchanges that are over altogether.
    private(set) var done: UInt64 = 0
    /// Exchanges that subscriptions and channels stand behind, which may last.
    private(set) var lasting = 0
    /// Since when no more than a few answers were written while memory is short, and how many were `done` then.
    var holdsBack: (since: UInt64, done: UInt64)?

    var count: Int { exchanges.count }
    var all: [Exchange] { (0..<exchanges.bound).compactMap { exchanges.at($0) } }

    subscript(index: UInt32) -> Exchange? {
        Int(index) < exchanges.bound ? exchanges.at(Int(index)) : nil
    }

    /// The same without counting a reference, for as long as no exchange ends.
    @inline(__always)
    func unretained(_ index: UInt32) -> Unmanaged<Exchange>? {
        Int(index) < exchanges.bound ? exchanges.unretained(at: Int(index)) : nil
    }

    mutating func insert(_ make: (Handle) -> Exchange) -> Exchange { exchanges.insert(make) }

    /// An exchange is over but for what is still to be written.
    mutating func noteFinished() { unwritten += 1 }

    /// A finished exchange is over altogether.
    mutating func remove(_ exchange: Exchange) {
        assert(exchange.isFinished && unwritten > 0)
        unwritten -= 1
        done &+= 1
        exchanges.remove(exchange.handle)
    }

    /// A subscription or a channel begins or ends behind an exchange.
    mutating func countLasting(_ change: Int) {
        lasting += change
        assert(lasting >= 0)
    }

    /// Places that `forEach` goes over, which makes no list of them.
    var places: Int { exchanges.bound }
    func forEach(_ body: (Exchange) -> Void) {
        for place in 0..<places { exchanges.at(place).map(body) }
    }
}
