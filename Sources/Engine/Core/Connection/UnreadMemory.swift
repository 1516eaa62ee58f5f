// UnreadMemory: the last resort against clients that do not read. Each keeps what it was handed last, though the topic
// has let it go: a region of up to 256 KiB or one message, which all who are stuck in it share. Where each is stuck in
// another one, these add up. When they take a fourth of `memory`, and there is little left:
//
//     1. a sweep counts who names each region                     (share = bytes / number of connections)
//     2. a second later, or when publishes are refused, regions are chosen, those with the largest shares first, until
//        an eighth would be left
//     3. connections that still name one of these
//          ├─ have what they need of it copied, if that is little, and there is room for copies
//          └─ are cut off

/// What the first sweep found, and what was chosen.
struct UnreadMemory {
    /// A region that was let go of.
    struct Find {
        let capacity: Int
        var holders = 0
        var isChosen = false
        /// What each of those who name it answers for, in bytes.
        var share: Int { capacity / Swift.max(1, holders) + 1 }
    }

    /// By their marks.
    private(set) var finds = PartitionedDictionary<UInt64, Find>()
    /// When the first sweep was over, and how many publishes had been refused by then.
    var counted: (time: UInt64, refused: UInt64)?
    private(set) var hasChosen = false
    /// Connections that were cut off.
    var cutOff = 0

    /// A part of `memory`, in which all that only stuck connections keep is no concern.
    static let share = 4
    /// A part of `memory` that they are left with.
    static let rest = 8
    /// So much of `memory` is to be free, before anybody gives way.
    static let reserve = 20
    /// A part of its share of which a connection may need no more for a copy to be worthwhile.
    static let worthCopying = 2

    /// A connection names the region with this mark.
    mutating func count(_ mark: UInt64, capacity: Int) {
        var find = finds[mark] ?? Find(capacity: capacity)
        find.holders += 1
        finds[mark] = find
    }

    /// Chooses regions, until those that are left take no more than `rest` bytes.
    mutating func choose(leaving rest: Int) {
        hasChosen = true
        // Each has its place among those whose shares have as many bits.
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

    /// Who is stuck in what topics let go of, while that takes too much memory.
    private var unread: UnreadMemory?

    /// A tick has ended.
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
                level: .warning, message: "connections cut off that kept memory which others needed",
                fields: [("shard", index), ("connections", unread.cutOff)]))
    }

    /// Memory is used up, or what is kept of messages in other forms has others wait. Where publishes are refused, half
    /// as much is too much.
    var isUnreadTooMuch: Bool {
        if relief.isRefusing { return memory.unread > memory.limit / UnreadMemory.share / 2 }
        return memory.unread > memory.limit / UnreadMemory.share
            && (memory.used > memory.limit - memory.limit / UnreadMemory.reserve || !work.isFed)
    }

    /// Regions that a connection names and nobody else may need, by their marks, with how many bytes of each.
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

    /// A connection that names a region which was chosen gives it back.
    func freeUnread(of connection: Connection, now: Instant) {
        guard let unread else { return }
        var share = 0
        var named = 0
        var isChosen = false
        for (mark, region) in unreadRegions(of: connection) {
            named += region.named
            // What was let go of since may still be on its way.
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
        // One that can be resumed lacks what was not kept of it, so it cannot go on either.
        connectionEnds.close(connection, reason: "it kept memory that others needed", now: now)
    }
}
