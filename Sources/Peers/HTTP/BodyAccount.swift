// BodyAccount: the bodies of a connection's responses taken together: the memory that they hold, and how much of them
// the peer's windows do not allow yet.

import HTTP2

struct BodyAccount: ~Copyable {
    /// What of it is one exchange's.
    struct Share {
        fileprivate(set) var memory = 0
        fileprivate(set) var bytes = 0
        fileprivate(set) var beyond = 0
        /// Its turn to go on once other bodies need less beyond the windows; nil if it does not wait for that.
        fileprivate var turn: TurnQueue<Exchange>.Ticket?
    }

    private let pool: BlockPool
    /// Bytes of memory that the bodies hold for themselves.
    private(set) var memory = 0
    /// Bytes of all bodies that wait.
    private(set) var bytes = 0
    /// Those of them that the peer's windows did not allow when they were handed over. They wait for the peer alone.
    private(set) var beyond = 0
    /// Streams with a message that goes beyond their window, and has to wait until `beyond` is less. In turn.
    private var crowded = TurnQueue<Exchange>()

    init(pool: BlockPool) { self.pool = pool }

    deinit { pool.count(-memory) }

    /// Bytes of bodies that go as soon as the output takes them.
    var ready: Int { bytes - beyond }
    /// Streams wait until less goes beyond their windows.
    var isCrowded: Bool { !crowded.isEmpty }

    /// Counts a body that has changed.
    @inline(__always)
    mutating func weigh(_ exchange: Exchange, window: @autoclosure () -> Int) {
        let memory = exchange.body.memory
        if memory != exchange.counted.memory {
            pool.count(memory - exchange.counted.memory)
            self.memory += memory - exchange.counted.memory
            exchange.counted.memory = memory
        }
        let count = exchange.body.count
        let grew = count > exchange.counted.bytes
        bytes += count - exchange.counted.bytes
        exchange.counted.bytes = count
        if grew {
            weigh(exchange, against: window())
        } else if exchange.beyond > count {
            setBeyond(count, of: exchange)
        }
        assert(beyond >= 0 && ready >= 0)
    }

    /// Counts how much of a body goes beyond what the peer allows now. What a tiny window allows goes slowly.
    mutating func weigh(_ exchange: Exchange, against window: Int) {
        let allowed = window < BodyAccount.smallWindow ? 0 : window
        setBeyond(Swift.max(0, exchange.counted.bytes - allowed), of: exchange)
    }

    /// As `HTTP2Limits.tinyData`.
    private static let smallWindow = HTTP2Limits().tinyData

    private mutating func setBeyond(_ bytes: Int, of exchange: Exchange) {
        beyond += bytes - exchange.beyond
        exchange.counted.beyond = bytes
    }

    /// The peer takes nothing more of a body for now: small ranges of shared memory are copied, where there is room.
    func detach(_ exchange: Exchange) { exchange.body.detach { pool.mayOwn($0) } }

    /// Bytes that all bodies may have beyond the windows; while memory is short one message is as many as may be.
    func mostBeyond(_ limit: Int) -> Int { pool.isShort ? 1 : limit }

    /// Has an exchange wait until less of all bodies goes beyond the windows.
    mutating func crowd(_ exchange: Exchange) {
        exchange.isStalled = true
        guard exchange.counted.turn == nil else { return }
        exchange.counted.turn = crowded.append(exchange)
    }

    /// The one that has waited longest for others' bodies, if there is room beyond the windows for its message.
    mutating func nextCrowded(limit: Int) -> Exchange? {
        guard beyond < limit, let exchange = crowded.popFirst() else { return nil }
        exchange.counted.turn = nil
        exchange.isStalled = false
        return exchange
    }

    /// It waits for others' bodies no more.
    mutating func withdraw(_ exchange: Exchange) {
        guard let turn = exchange.counted.turn else { return }
        exchange.counted.turn = nil
        crowded.withdraw(turn)
    }
}
