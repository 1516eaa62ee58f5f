// Blocks: memory for bytes made for one connection, reused so that steady delivery allocates nothing.

/// A region that segments of one connection's output lie in.
final class Block {
    static let size = 16 << 10
    let base: UnsafeMutableRawPointer
    let capacity: Int
    var used = 0
    /// Segments that lie in it.
    var segments = 0
    private let budget: MemoryBudget

    init(capacity: Int, budget: MemoryBudget) {
        self.capacity = capacity
        self.budget = budget
        base = .allocate(byteCount: capacity, alignment: 16)
        budget.add(capacity)
    }

    deinit {
        base.deallocate()
        budget.add(-capacity)
    }
}

/// The shard's spare blocks, and its scratch.
final class BlockPool {
    /// Spare blocks kept.
    static let spares = 256
    private var free: [Block] = []
    let budget: MemoryBudget
    let scratch: Scratch

    init(budget: MemoryBudget, scratch size: Int = Scratch.size) {
        self.budget = budget
        self.scratch = Scratch(size: size)
    }

    func take(_ capacity: Int) -> Block {
        if capacity <= Block.size, let block = free.popLast() { return block }
        return Block(capacity: Swift.max(capacity, Block.size), budget: budget)
    }

    func forEachSpare(_ body: (Block) -> Void) { free.forEach(body) }

    /// A segment of `block` has gone; the block can be used again after its last.
    func release(_ block: Block) {
        block.segments -= 1
        guard block.segments == 0 else { return }
        block.used = 0
        if block.capacity == Block.size, free.count < BlockPool.spares { free.append(block) }
    }
}
