// StoreCopy: a consistent copy of a store that may be in use, also by another process. All rows are read in one read
// transaction and written to a new store, without free pages.
//
// As long as the read transaction is open, the live store cannot reuse pages that it frees, so its file grows with all
// that it writes. A copy that takes too long is therefore given up before the reserve is gone.

import CLMDB
import CStoreIO

extension Store {
    /// Copies the store to a directory that is empty or does not exist. The copy is marked: all its topics take new
    /// epochs when it is first opened for writing. Any thread may call it.
    /// - Parameter growth: the bytes in the live store's map that must stay free, by default half of its reserve.
    public func copy(to directory: String, keepingFree growth: UInt64? = nil) throws(StoreError) {
        var live = fb_store_state()
        guard fb_store_info(environment, &live) == 0 else { throw .unusable("the store cannot be read") }
        // The reserve, computed from the map's size: a tool does not know the options of the broker.
        let reserve = (live.map_size - min(live.map_size, 64 << 20)) / 5 + 64 << 20
        let limit = live.map_size - min(live.map_size, growth ?? reserve / 2)
        let place = StorePlace(StoreOptions(directory: directory, bytes: live.map_size), isCopy: true)
        try place.checkDirectory()
        guard try !place.checkFiles() else { throw .foreign("there already is a store in \(directory)") }
        var isTooSlow = false
        do throws(StoreError) {
            try place.create(StoreState(isClean: true, isCopy: true, generation: generation)) {
                target throws(Failure) in
                try self.reading { source throws(Failure) in
                    for database in Database.allCases where database != .meta {
                        try Store.copy(database, source, target) { () throws(Failure) in
                            var now = fb_store_state()
                            try Failure.check(fb_store_info(self.environment, &now))
                            isTooSlow = now.last_page > live.last_page && now.last_page * self.pageSize > limit
                            if isTooSlow { throw Failure(MDB_MAP_FULL) }
                        }
                    }
                }
            }
        } catch {
            if isTooSlow {
                throw .aborted("the copy was given up, because the store has grown into its reserve meanwhile")
            }
            throw error
        }
    }

    /// Bytes of a transaction of the copy, unless a single row is larger.
    private static let step = 16 << 20

    /// Copies the rows of a database. Calls `check` before each step.
    private static func copy(
        _ database: Database, _ source: Transaction, _ target: OpaquePointer, check: () throws(Failure) -> Void
    ) throws(Failure) {
        try source.withCursor(database) { cursor throws(Failure) in
            var next = try cursor.first()
            while next != nil {
                try check()
                // Reading is finished before the write transaction begins, so that a read error does not interrupt it.
                var rows: [(id: UInt64, rest: [UInt8], value: [UInt8])] = []
                var size = 0
                while let row = next, size < step {
                    rows.append((row.id, try row.restBytes(), try row.bytes(limit: .max)))
                    size += row.size
                    next = try cursor.next()
                }
                try StorePlace.write(target, isSynced: false) { transaction throws(Failure) in
                    for row in rows { try transaction.put(database, row.id, rest: row.rest, row.value) }
                }
            }
        }
    }
}
