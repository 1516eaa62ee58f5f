// UnreadMemory: the last resort against clients that do not read. Each keeps what it was handed last, though the topic
// has let it go: a region of up to 256 KiB or one message, which all who are stuck in it share. Where each is stuck in
// another one, these add up. When they take a fourth of `memory`, and there is little left:
//
//     1. a sweep counts who names each region                     (share = bytes / number of connections)
//     2. a second later, those that still name one, with a share above the mean of all connections
//          ├─ have what they need of it copied, if that is little, and there is room for copies
//          └─ are cut off

/// What the first sweep found.
struct UnreadMemory {
    /// Connections that name each region that was let go of, by its mark.
    var holders = PartitionedDictionary<UInt64, Int>()
    /// When the first sweep was over.
    var counted: UInt64?
    /// The smallest share with which a connection gives way; nil until the second sweep begins.
    var least: Int?
    /// Connections that were cut off.
    var cutOff = 0

    /// A part of `memory`, in which all that only stuck connections keep is no concern.
    static let share = 4
    /// So much of `memory` is to be free, before anybody gives way.
    static let reserve = 20
    /// A part of its share of which a connection may need no more for a copy to be worthwhile.
    static let worthCopying = 2
}

extension Shard {
    /// A tick has ended.
    func relieveUnread(now: Instant) {
        guard let unread else {
            guard isUnreadTooMuch else { return }
            self.unread = UnreadMemory()
            return sweep(.countingUnread, now: now)
        }
        if unread.least != nil {
            if !isSweeping(.freeingUnread) { endFreeing(unread) }
        } else if let counted = unread.counted {
            guard now.monotonic - counted >= Limits.second else { return }
            self.unread?.least = memory.unread / Swift.max(1, quotas.connections.value)
            sweep(.freeingUnread, now: now)
        } else if !isSweeping(.countingUnread) {
            self.unread?.counted = now.monotonic
        }
    }

    private func endFreeing(_ unread: UnreadMemory) {
        self.unread = nil
        guard unread.cutOff > 0 else { return }
        effects.log.append(
            LogRecord(
                level: .warning, message: "connections cut off that kept memory which others needed",
                fields: [("shard", String(index)), ("connections", String(unread.cutOff))]))
    }

    /// Memory is used up, or what is kept of messages in other forms has others wait.
    var isUnreadTooMuch: Bool {
        memory.unread > memory.limit / UnreadMemory.share
            && (memory.used > memory.limit - memory.limit / UnreadMemory.reserve || !work.isFed)
    }

    /// Regions that a connection names and nobody else may need, by their marks, with how many bytes of each.
    private func unreadRegions(of connection: Connection) -> [UInt64: (capacity: Int, named: Int)] {
        var regions: [UInt64: (capacity: Int, named: Int)] = [:]
        func add(_ region: Region, _ count: Int) {
            let mark = region.letGoMark
            if mark != 0 { regions[mark, default: (region.capacity, 0)].named += count }
        }
        connection.output.forEachShared(add)
        connection.http?.forEachExchange { $0.body.forEachShared(add) }
        let places = connection.output.segments.count + (connection.http?.places ?? 0)
        work.spent += places / Work.membersPerUnit
        return regions
    }

    func countUnread(of connection: Connection) {
        for mark in unreadRegions(of: connection).keys {
            let holders = unread?.holders[mark] ?? 0
            unread?.holders[mark] = holders + 1
        }
    }

    /// A connection that keeps more than others do gives it back.
    func freeUnread(of connection: Connection, now: Instant) {
        guard let unread, let least = unread.least else { return }
        var share = 0
        var named = 0
        for (mark, region) in unreadRegions(of: connection) {
            named += region.named
            // What was let go of since may still be on its way.
            if let holders = unread.holders[mark] { share += region.capacity / holders + 1 }
        }
        guard share > 0, share >= least else { return }
        reached(.memory)
        if named <= share / UnreadMemory.worthCopying, pool.mayOwn(named) {
            connection.copyUnread()
            return charge(connection)
        }
        self.unread?.cutOff += 1
        // One that can be resumed lacks what was not kept of it, so it cannot go on either.
        close(connection, reason: "it kept memory that others needed", now: now)
    }
}

extension Connection {
    /// Copies what is to be sent and lies in regions that were let go of.
    fileprivate func copyUnread() {
        output.copyUnread()
        guard let http else { return }
        http.forEachExchange {
            $0.body.copy { region, _ in region.isUnread }
            http.weigh($0)
        }
    }
}
