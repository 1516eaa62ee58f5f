// UnreadMemory: the last resort against clients that do not read. Each such client keeps the memory of what it was
// handed last, even after the topic has released it: one message, or a region of up to 256 KiB shared by all
// connections stuck in it. If each client is stuck in a different region, the regions add up. When these take a quarter
// of `memory` and little is left:
//
//     1. a sweep counts the connections that reference each region   (share = bytes / number of connections)
//     2. a second later, or when publishes are refused, regions are chosen, largest shares first, until those that
//        remain take at most an eighth
//     3. connections that still reference a chosen region
//          ├─ have their part of it copied, if it is small and copies fit into memory
//          └─ are cut off otherwise

/// What the first sweep found, and the regions chosen.
struct UnreadMemory {
    /// A region that its topic has released.
    struct Find {
        let capacity: Int
        var holders = 0
        var isChosen = false
        /// The share of each connection that references the region, in bytes.
        var share: Int { capacity / Swift.max(1, holders) + 1 }
    }

    /// By the regions' marks.
    private(set) var finds = PartitionedDictionary<UInt64, Find>()
    /// When the first sweep ended, and how many publishes had been refused by then.
    var counted: (time: UInt64, refused: UInt64)?
    private(set) var hasChosen = false
    /// Connections that were cut off.
    var cutOff = 0

    /// Unread data may take 1/`share` of `memory` before anything is done.
    static let share = 4
    /// 1/`rest` of `memory` may remain with stuck connections.
    static let rest = 8
    /// Nothing is done while 1/`reserve` of `memory` is free.
    static let reserve = 20
    /// A connection's data is copied if it needs at most 1/`worthCopying` of its share.
    static let worthCopying = 2

    /// Counts a connection that references the region with this mark.
    mutating func count(_ mark: UInt64, capacity: Int) {
        var find = finds[mark] ?? Find(capacity: capacity)
        find.holders += 1
        finds[mark] = find
    }

    /// Chooses regions until the others take at most `rest` bytes.
    mutating func choose(leaving rest: Int) {
        hasChosen = true
        // Shares are sorted into buckets by their number of bits.
        var sums = [Int](repeating: 0, count: Int.bitWidth + 1)
        for find in finds.values { sums[UnreadMemory.bits(find.share)] += find.capacity }
        var left = sums.reduce(0, +) - rest
        var place = Int.bitWidth
        while place > 0, sums[place] <= left {
            left -= sums[place]
            place -= 1
        }
        finds.update { find in
            let bits = UnreadMemory.bits(find.share)
            guard bits > place || bits == place && left > 0 else { return }
            if bits == place { left -= find.capacity }
            find.isChosen = true
        }
    }

    private static func bits(_ count: Int) -> Int { Int.bitWidth - count.leadingZeroBitCount }
}

final class UnreadRelief: ShardPart {
    let connections: ConnectionTable
    let relief: MemoryRelief
    let connectionEnds: ConnectionEnds
    // Above
    unowned(unsafe) var scheduler: Scheduler!

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ relief: MemoryRelief,
        _ connectionEnds: ConnectionEnds
    ) {
        self.connections = connections
        self.relief = relief
        self.connectionEnds = connectionEnds
        super.init(context)
    }

    /// The relief in progress; nil if unread data does not take too much memory.
    private var unread: UnreadMemory?

    /// Begins or continues the relief, if unread data takes too much memory. Called after each tick.
    func relieveUnread(now: Instant) {
        guard let unread else {
            guard isUnreadTooMuch else { return }
            self.unread = UnreadMemory()
            return scheduler.sweep(.countingUnread, now: now)
        }
        if unread.hasChosen {
            if !scheduler.isSweeping(.freeingUnread) { endFreeing(unread) }
        } else if let counted = unread.counted {
            guard memory.refused > counted.refused || now.monotonic - counted.time >= Limits.second else { return }
            self.unread?.choose(leaving: Swift.min(memory.limit / UnreadMemory.rest, memory.unread / 2))
            scheduler.sweep(.freeingUnread, now: now)
        } else if !scheduler.isSweeping(.countingUnread) {
            self.unread?.counted = (now.monotonic, memory.refused)
        }
    }

    private func endFreeing(_ unread: UnreadMemory) {
        self.unread = nil
        guard unread.cutOff > 0 else { return }
        effects.log.append(
            LogRecord(
                level: .warning, message: "slow connections cut off to free memory",
                fields: [("shard", index), ("connections", unread.cutOff)]))
    }

    /// Whether unread data takes more than its share while memory is used up or subscriptions wait for memory. While
    /// publishes are refused, half of the share is already too much.
    var isUnreadTooMuch: Bool {
        if relief.isRefusing { return memory.unread > memory.limit / UnreadMemory.share / 2 }
        return memory.unread > memory.limit / UnreadMemory.share
            && (memory.used > memory.limit - memory.limit / UnreadMemory.reserve || !work.isFed)
    }

    /// Released regions that a connection references, by mark, with the number of bytes that it references in each.
    private func unreadRegions(of connection: Connection) -> [UInt64: (capacity: Int, named: Int)] {
        var regions: [UInt64: (capacity: Int, named: Int)] = [:]
        func add(_ region: Region, _ count: Int) {
            let mark = region.letGoMark
            if mark != 0 { regions[mark, default: (region.capacity, 0)].named += count }
        }
        work.spent += connection.forEachShared(add) / Work.membersPerUnit
        return regions
    }

    func countUnread(of connection: Connection) {
        for (mark, region) in unreadRegions(of: connection) { unread?.count(mark, capacity: region.capacity) }
    }

    /// Releases the connection's references to chosen regions, by copying its data or closing the connection.
    func freeUnread(of connection: Connection, now: Instant) {
        guard let unread else { return }
        var share = 0
        var named = 0
        var isChosen = false
        for (mark, region) in unreadRegions(of: connection) {
            named += region.named
            // Regions released since the first sweep were not counted.
            guard let find = unread.finds[mark] else { continue }
            share += find.share
            if find.isChosen { isChosen = true }
        }
        guard isChosen else { return }
        reached(.memory)
        if named <= share / UnreadMemory.worthCopying, pool.mayOwn(named) {
            connection.copyUnread()
            return connections.charge(connection)
        }
        self.unread?.cutOff += 1
        // A session with a gap cannot be resumed, so the session is closed too.
        connectionEnds.close(connection, reason: "it held memory that other clients needed", now: now)
    }
}
