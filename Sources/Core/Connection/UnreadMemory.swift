// UnreadMemory: the last resort against clients that do not read. Each keeps what it was handed last, though the topic
// has let it go: a region of up to 256 KiB or one message, which all who are stuck in it share. Where each is stuck in
// another one, these add up. When they take a fourth of `memory`, and there is little left:
//
//     1. a sweep counts who names each region                     (share = bytes / number of connections)
//     2. a second later, those that still name one with a share above the mean
//          ├─ have what they need of it copied, if that is little, and there is room for copies
//          └─ are cut off

import RSocket

/// What the first sweep found.
struct UnreadMemory {
    /// Connections that name each region that was let go of.
    var holders: [ObjectIdentifier: Int] = [:]
    /// Bytes of these regions, and how many connections name one.
    var bytes = 0
    var connections = 0
    let since: UInt64
    /// The second sweep has begun.
    var isBeingFreed = false

    init(since: UInt64) { self.since = since }

    /// A part of `memory`, in which all that only stuck connections keep is no concern.
    static let share = 4
    /// A part of its share of which a connection may need no more for a copy to be worthwhile.
    static let worthCopying = 2
}

extension Shard {
    /// A tick has ended.
    func relieveUnread(now: Instant) {
        guard hasTooMuchUnread, memory.used > memory.limit - memory.limit / 20 else { return unread = nil }
        guard let unread else {
            self.unread = UnreadMemory(since: now.monotonic)
            return sweep(.countingUnread, now: now)
        }
        if unread.isBeingFreed {
            if !isSweeping(.freeingUnread) { self.unread = nil }
        } else if !isSweeping(.countingUnread), now.monotonic - unread.since >= Limits.second {
            self.unread?.isBeingFreed = true
            sweep(.freeingUnread, now: now)
        }
    }

    var hasTooMuchUnread: Bool { memory.unread > memory.limit / UnreadMemory.share }

    /// Regions that a connection names and nobody else may need, with how many bytes of each.
    private func unreadRegions(of connection: Connection) -> [ObjectIdentifier: (capacity: Int, named: Int)] {
        var regions: [ObjectIdentifier: (capacity: Int, named: Int)] = [:]
        func add(_ region: Region, _ count: Int) {
            guard region.isUnread else { return }
            regions[ObjectIdentifier(region), default: (region.capacity, 0)].named += count
        }
        connection.output.forEachShared(add)
        guard let http = connection.http else { return regions }
        work.spent += http.places / Work.membersPerUnit
        http.forEachExchange { $0.body.forEachShared(add) }
        return regions
    }

    func countUnread(of connection: Connection) {
        let regions = unreadRegions(of: connection)
        guard !regions.isEmpty else { return }
        unread?.connections += 1
        for (id, region) in regions {
            let holders = unread?.holders[id] ?? 0
            unread?.holders[id] = holders + 1
            if holders == 0 { unread?.bytes += region.capacity }
        }
    }

    /// A connection that keeps more than others do gives it back.
    func freeUnread(of connection: Connection, now: Instant) {
        guard hasTooMuchUnread, let unread, unread.connections > 0 else { return }
        var share = 0
        var named = 0
        for (id, region) in unreadRegions(of: connection) {
            guard let holders = unread.holders[id] else { continue }
            share += region.capacity / holders
            named += region.named
        }
        guard share > 0, share >= unread.bytes / unread.connections else { return }
        reached(.memory)
        if named <= share / UnreadMemory.worthCopying, pool.mayOwn(named) { return connection.copyUnread() }
        unplug(connection, reason: "it did not read, and kept memory that others needed", now: now)
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
