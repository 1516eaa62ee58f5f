// Store: durable topics in one LMDB environment. It knows topic ids, sequences and opaque bodies.
//
//     forebay.store        the data file       forebay.store-lock   LMDB's table of readers
//     lock                 our lock: one broker at a time
//
//     database     key                      value
//     meta         1, 2                     format; state (StoreState)
//     topics       topic id                 TopicRow
//     extents      topic id                 TopicExtent: first and last sequence, and what else opening needs
//     batches      topic id, first sequence header and body (Batch.swift)
//     publishers   topic id, publisher key  PublisherRecord
//     deleted      topic id                 empty: a topic whose batches and publishers wait to be purged
//
// One thread writes; any thread reads, each time in a transaction of its own, which sees the last commit.

import CStoreIO
import Glibc
import Synchronization

/// Where the store is, and how large it may become.
public struct StoreOptions: Sendable {
    public var directory: String
    /// Maximum size of all databases in bytes. The data file is larger by free pages and by a reserve, a quarter of
    /// this and 64 MiB, for retention, deletions, ends and publishers.
    public var bytes: UInt64
    /// For tools: nothing is written, and a broker may have the directory open.
    public var isReadOnly: Bool

    public init(directory: String, bytes: UInt64, isReadOnly: Bool = false) {
        self.directory = directory
        self.bytes = bytes
        self.isReadOnly = isReadOnly
    }

    /// Maximum of `bytes`: 32 TiB. The map must fit into the address space.
    public static let mostBytes: UInt64 = 1 << 45

    var reserve: UInt64 { bytes / 4 + 64 << 20 }
    var path: String { "\(directory)/forebay.store" }
}

/// The durable store.
public final class Store: @unchecked Sendable {
    // Unchecked because of LMDB's pointer and the writer's state. LMDB allows reading on any thread; only the writer's
    // thread may use `writing`.
    public let options: StoreOptions
    /// Whether the store was not closed after it was last open for writing.
    public let startedAfterCrash: Bool
    /// Whether this was the first opening of a copy, so that all topics have new epochs.
    public let isCopy: Bool
    /// The number of unclean starts.
    let generation: UInt64
    let environment: OpaquePointer
    let pageSize: UInt64
    private let lock: Int32
    private let published: Atomic<UInt64>
    var writing = WritingState()

    init(
        _ options: StoreOptions, environment: OpaquePointer, lock: Int32, state: StoreState, startedAfterCrash: Bool,
        isCopy: Bool
    ) throws(Failure) {
        self.options = options
        self.startedAfterCrash = startedAfterCrash
        self.isCopy = isCopy
        self.environment = environment
        self.lock = lock
        generation = state.generation
        var info = fb_store_state()
        try Failure.check(fb_store_info(environment, &info))
        pageSize = info.page_size
        published = Atomic(0)
        var status = stat()
        if fstat(fb_store_file(environment), &status) == 0, status.st_blocks * 512 >= status.st_size {
            writing.allocated = UInt64(status.st_size)
        }
        try reading { transaction throws(Failure) in
            used = try transaction.pages() * self.pageSize
            try transaction.withCursor(.deleted) { cursor throws(Failure) in
                var next = try cursor.first()
                while let row = next {
                    writing.deleted.append(TopicID(row.id))
                    next = try cursor.next()
                }
            }
        }
    }

    /// Size of all databases in bytes, without free pages. Any thread may read it.
    public internal(set) var used: UInt64 {
        get { published.load(ordering: .relaxed) }
        set { published.store(newValue, ordering: .relaxed) }
    }

    /// Marks the store as clean and closes it. It is not clean if a commit failed with `unknown`, or if messages of
    /// relaxed topics, which have been delivered, are not written: the topics then take new epochs. Call it once, on
    /// the writer's thread, when no other thread uses the store.
    public func close() {
        if !options.isReadOnly {
            _ = try? transact { transaction throws(Failure) in
                guard try !self.lacksDelivered(transaction) else { return false }
                try StoreState(isClean: true, isCopy: false, generation: self.generation).write(transaction)
                return false
            }
        }
        // After a fault, LMDB's lock is held for ever and its transaction is open: the environment cannot be closed.
        if !writing.isStuck { fb_store_close(environment) }
        if lock >= 0 { Glibc.close(lock) }
    }

    /// Runs `body` in a read transaction.
    func reading<R>(_ body: (Transaction) throws(Failure) -> R) throws(Failure) -> R {
        var pointer: OpaquePointer?
        try Failure.check(fb_store_begin(environment, Int32(FB_STORE_READ), &pointer))
        defer { _ = fb_store_abort(pointer) }
        return try body(Transaction(pointer: pointer!))
    }
}

/// What only the writer's thread uses.
struct WritingState {
    /// Why no commit is possible any more.
    var failure: String?
    /// Whether a fault interrupted a write transaction.
    var isStuck = false
    /// Bytes at the start of the data file that have space on the disk.
    var allocated: UInt64 = 0
    /// Deleted topics that still have rows.
    var deleted: [TopicID] = []
    /// Whether purging them waits until there may be room.
    var isPurgePaused = false
    /// Topics with messages that were handed over, but not written.
    var unwritten: Set<TopicID> = []
    /// Trims that were too long for their commit.
    var trims: [TopicID: UInt64] = [:]
}

/// The row `state` of the meta database.
struct StoreState: Equatable {
    /// Cleared while the store is open for writing.
    var isClean: Bool
    /// Set in a copy until it is opened for writing.
    var isCopy: Bool
    var generation: UInt64

    static let formatKey: UInt64 = 1
    static let stateKey: UInt64 = 2
    static let marker = Array("forebay-store".utf8)
    /// The version of the format. A store with a higher one is not opened.
    static let version: UInt32 = 1

    func write(_ transaction: Transaction) throws(Failure) {
        var bytes: [UInt8] = [isClean ? 1 : 0, isCopy ? 1 : 0]
        bytes.append(bigEndian: generation)
        try transaction.put(.meta, StoreState.stateKey, bytes)
    }

    static func writeFormat(_ transaction: Transaction) throws(Failure) {
        var bytes = marker
        bytes.append(bigEndian: version)
        try transaction.put(.meta, formatKey, bytes)
    }

    static func read(_ transaction: Transaction) throws(Failure) -> StoreState {
        guard let bytes = try transaction.get(.meta, stateKey)?.bytes(), bytes.count == 10 else {
            throw Failure.corrupted
        }
        let generation = bytes[2...].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return StoreState(isClean: bytes[0] != 0, isCopy: bytes[1] != 0, generation: generation)
    }
}
