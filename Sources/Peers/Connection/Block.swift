// Blocks: memory for bytes made for one connection, reused so that steady delivery allocates nothing.

/// A region that holds segments of one connection's output.
final class Block: Region, @unchecked Sendable {
    static let size = 16 << 10
    /// The size of a connection's second block when memory is short: blocks of a few bytes each have more overhead.
    static let shortSize = 512
    var used = 0
    /// The number of segments in the block.
    var segments = 0
}

/// The shard's spare blocks, its scratch buffer, and the total that its connections own.
final class BlockPool {
    /// The most spare blocks that are kept.
    static let spares = 256
    /// All connections' own copies of messages may take 1/`share` of `Limits.memory`.
    static let share = 8
    private var free: [Block] = []
    let budget: MemoryBudget
    let scratch: Scratch
    private let shards: Int
    /// Bytes of blocks owned by connections.
    private(set) var owned = 0
    /// The value of `owned` above which memory is short.
    private var allowance: Int
    /// Whether memory is short. A connection is then handed no more than it is likely to send at once.
    private(set) var isShort = false
    /// Bytes of requests and responses of connections whose requests wait because their peers do not read or because
    /// other connections are being served.
    var undealt = 0
    /// Whether no connection should have much more unprocessed input.
    var isReadingShort: Bool { undealt > allowance }

    /// Bytes that the driver holds for HTTP/1.1 connections.
    var http1 = 0
    /// Whether no more HTTP/1.1 connections should be kept open for their next requests.
    var isHTTP1Short: Bool { http1 > allowance }

    init(budget: MemoryBudget, shards: Int = 1, scratch size: Int = Scratch.size) {
        self.budget = budget
        self.shards = shards
        scratch = Scratch(size: size)
        allowance = budget.limit / BlockPool.share / shards
    }

    /// Reads the memory limit and usage, which can change between inputs.
    func look() {
        let limit = budget.limit
        allowance = limit / BlockPool.share / shards
        isShort = owned > allowance || budget.used > limit
    }

    /// Whether one more connection may own `count` bytes.
    func mayOwn(_ count: Int) -> Bool { owned + count <= allowance }

    /// A block with space for `capacity` bytes, or for more if there is enough memory.
    func take(_ capacity: Int) -> Block {
        guard capacity <= Block.size, owned + Block.size <= allowance else { return make(capacity) }
        owned += Block.size
        return free.popLast() ?? Block(capacity: Block.size, budget: budget)
    }

    /// A block of exactly that size, rounded up to 16 bytes.
    func make(_ capacity: Int) -> Block {
        let block = Block(capacity: (capacity + 15) & ~15, budget: budget)
        owned += block.capacity
        if owned > allowance { isShort = true }
        return block
    }

    /// Counts `change` more bytes that connections own outside blocks.
    func count(_ change: Int) {
        owned += change
        if owned > allowance { isShort = true }
    }

    func forEachSpare(_ body: (Block) -> Void) { free.forEach(body) }

    /// Releases a segment of `block`; after its last one the block can be reused.
    func release(_ block: Block) {
        block.segments -= 1
        guard block.segments == 0 else { return }
        block.used = 0
        owned -= block.capacity
        if block.capacity == Block.size, free.count < BlockPool.spares { free.append(block) }
    }

    /// Frees the spare blocks.
    func removeSpares() { free.removeAll() }
}

/// The blocks of one connection, for bytes that are made only for it.
struct OwnBlocks {
    let pool: BlockPool
    /// The block with space left, where the next bytes go.
    private(set) var current: Block?

    init(pool: BlockPool) { self.pool = pool }

    /// Space for a new segment, in the current block if the segment fits.
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

    /// A block that one segment fills.
    func exactly(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        let block = pool.make(count)
        block.used = count
        block.segments = 1
        return (block, block.base)
    }

    /// Releases a segment of `block`.
    mutating func release(_ block: Block) {
        pool.release(block)
        if block.segments == 0, current === block { current = nil }
    }
}
