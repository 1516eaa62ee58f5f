// Blocks: memory for bytes made for one connection, reused so that steady delivery allocates nothing.

/// A region that segments of one connection's output lie in.
final class Block: Region, @unchecked Sendable {
    static let size = 16 << 10
    /// A connection's second one, where memory is short: blocks of a few bytes each take more beside than these.
    static let shortSize = 512
    var used = 0
    /// Segments that lie in it.
    var segments = 0
}

/// The shard's spare blocks, its scratch, and how much all its connections hold for themselves.
final class BlockPool {
    /// Spare blocks kept.
    static let spares = 256
    /// All connections' own copies of messages may take one part in so many of `Limits.memory`.
    static let share = 8
    private var free: [Block] = []
    let budget: MemoryBudget
    let scratch: Scratch
    private let shards: Int
    /// Bytes of blocks that connections hold.
    private(set) var owned = 0
    /// Bytes of them above which memory is short.
    private var allowance: Int
    /// A connection is handed no more than it can be expected to take at once.
    private(set) var isShort = false
    /// Bytes of requests and answers of connections whose requests wait, as they do not read or others have their turn.
    var undealt = 0
    /// No connection is to have much more of these.
    var isReadingShort: Bool { undealt > allowance }

    /// Bytes that the driver has for connections of HTTP/1.1.
    var http1 = 0
    /// No more connections of HTTP/1.1 are to be kept for their next requests.
    var isHTTP1Short: Bool { http1 > allowance }

    init(budget: MemoryBudget, shards: Int = 1, scratch size: Int = Scratch.size) {
        self.budget = budget
        self.shards = shards
        scratch = Scratch(size: size)
        allowance = budget.limit / BlockPool.share / shards
    }

    /// Looks at how much memory there is, as it is from one input to the next.
    func look() {
        let limit = budget.limit
        allowance = limit / BlockPool.share / shards
        isShort = owned > allowance || budget.used > limit
    }

    /// Whether one more connection may have `count` bytes for itself.
    func mayOwn(_ count: Int) -> Bool { owned + count <= allowance }

    /// A block with room for `capacity` bytes: one that has room for more where there is enough memory.
    func take(_ capacity: Int) -> Block {
        guard capacity <= Block.size, owned + Block.size <= allowance else { return make(capacity) }
        owned += Block.size
        return free.popLast() ?? Block(capacity: Block.size, budget: budget)
    }

    /// A block of just that many bytes.
    func make(_ capacity: Int) -> Block {
        let block = Block(capacity: (capacity + 15) & ~15, budget: budget)
        owned += block.capacity
        if owned > allowance { isShort = true }
        return block
    }

    /// Connections hold `change` bytes more, which are in no block.
    func count(_ change: Int) {
        owned += change
        if owned > allowance { isShort = true }
    }

    func forEachSpare(_ body: (Block) -> Void) { free.forEach(body) }

    /// A segment of `block` has gone; the block can be used again after its last.
    func release(_ block: Block) {
        block.segments -= 1
        guard block.segments == 0 else { return }
        block.used = 0
        owned -= block.capacity
        if block.capacity == Block.size, free.count < BlockPool.spares { free.append(block) }
    }

    /// Gives the spare blocks back.
    func removeSpares() { free.removeAll() }
}

/// The blocks of one connection: where bytes that are made for it alone lie.
struct OwnBlocks {
    let pool: BlockPool
    /// The block with room left, where the next bytes go.
    private(set) var current: Block?

    init(pool: BlockPool) { self.pool = pool }

    /// A place for a new segment, in the block in use if it has room.
    mutating func space(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        if let block = current, block.capacity - block.used >= count, block.segments > 0 {
            let target = block.base + block.used
            block.used += count
            block.segments += 1
            return (block, target)
        }
        let block = pool.take(current == nil ? count : Swift.max(count, Block.shortSize))
        block.used = count
        block.segments = 1
        current = block
        return (block, block.base)
    }

    /// A block with one segment, which fills it.
    func exactly(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        let block = pool.make(count)
        block.used = count
        block.segments = 1
        return (block, block.base)
    }

    /// A segment of `block` has gone.
    mutating func release(_ block: Block) {
        pool.release(block)
        if block.segments == 0, current === block { current = nil }
    }
}
