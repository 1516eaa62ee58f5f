// BodyAccount: totals over the bodies of a connection's responses: the memory they use, and the bytes that the peer's
// windows do not allow yet.

import HTTP2

struct BodyAccount: ~Copyable {
    /// One exchange's part of the totals.
    struct Share {
        fileprivate(set) var memory = 0
        fileprivate(set) var bytes = 0
        fileprivate(set) var beyond = 0
        /// The exchange's ticket while it waits for other bodies to have less beyond the windows; nil otherwise.
        fileprivate var turn: TurnQueue<Exchange>.Ticket?
    }

    private let pool: BlockPool
    /// Bytes of memory owned by the bodies.
    private(set) var memory = 0
    /// Bytes waiting in all bodies.
    private(set) var bytes = 0
    /// The part of `bytes` that the peer's windows did not allow when it was handed over. Those bytes wait only for the
    /// peer.
    private(set) var beyond = 0
    /// Streams with a message larger than their window, which wait, in order, until `beyond` falls.
    private var windowWaiters = TurnQueue<Exchange>()

    init(pool: BlockPool) { self.pool = pool }

    deinit { pool.count(-memory) }

    /// Bytes of bodies that are sent as soon as the output takes them.
    var ready: Int { bytes - beyond }
    /// Whether streams wait until fewer bytes are beyond the windows.
    var hasWindowWaiters: Bool { !windowWaiters.isEmpty }

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

    /// Counts the bytes of a body beyond what the peer allows now. A tiny window counts as none because data passes
    /// through it slowly.
    mutating func weigh(_ exchange: Exchange, against window: Int) {
        let allowed = window < BodyAccount.smallWindow ? 0 : window
        setBeyond(Swift.max(0, exchange.counted.bytes - allowed), of: exchange)
    }

    /// The same as `HTTP2Limits.tinyData`.
    private static let smallWindow = HTTP2Limits().tinyData

    private mutating func setBeyond(_ bytes: Int, of exchange: Exchange) {
        beyond += bytes - exchange.beyond
        exchange.counted.beyond = bytes
    }

    /// Copies the small shared ranges of a body of which the peer takes nothing more for now, if there is room for
    /// copies.
    func detach(_ exchange: Exchange) { exchange.body.detach { pool.mayOwn($0) } }

    /// The most bytes that all bodies may have beyond the windows; while memory is short, only one message.
    func mostBeyond(_ limit: Int) -> Int { pool.isShort ? 1 : limit }

    /// Makes an exchange wait until fewer bytes of all bodies are beyond the windows.
    mutating func crowd(_ exchange: Exchange) {
        exchange.isStalled = true
        guard exchange.counted.turn == nil else { return }
        exchange.counted.turn = windowWaiters.append(exchange)
    }

    /// The exchange that has waited longest for other bodies, if its message may go beyond the windows now.
    mutating func nextWindowWaiter(limit: Int) -> Exchange? {
        guard beyond < limit, let exchange = windowWaiters.popFirst() else { return nil }
        exchange.counted.turn = nil
        exchange.isStalled = false
        return exchange
    }

    /// Removes an exchange from the queue.
    mutating func withdraw(_ exchange: Exchange) {
        guard let turn = exchange.counted.turn else { return }
        exchange.counted.turn = nil
        windowWaiters.withdraw(turn)
    }
}
