// StoreTransaction: one synchronous write transaction, and what its errors mean.
//
// LMDB 0.9.24 does not report at which stage mdb_txn_commit failed. Its source (mdb.c) has these, in order:
//
//     1  update the roots, mdb_freelist_save    changes memory only: MDB_ codes, ENOMEM
//     2  mdb_page_flush                         writes pages that the last commit does not use: errno of pwrite, and
//                                               EIO for a short write
//     3  mdb_env_sync                           errno of fdatasync
//     4  mdb_env_write_meta                     writes the meta page with O_DSYNC: errno, EIO for a short write; sets
//                                               MDB_FATAL_ERROR, after which mdb_txn_begin returns MDB_PANIC
//
// A failure in stages 1 to 3 leaves the last commit in place. After 4, nobody knows what is on the disk. So:
//
// - MDB_ codes and ENOMEM: nothing was written. MDB_MAP_FULL and MDB_TXN_FULL mean that there is no room.
// - ENOSPC and EDQUOT: nothing was committed, if the environment is not in MDB_FATAL_ERROR and its last transaction is
//   still the former one. Pages that were written are free pages, which the next transaction writes again, so this
//   repeats no failed sync.
// - everything else, EIO above all: a failed write or sync. The kernel may have marked pages as clean that are not on
//   the disk, so nothing is written until the store has been opened again.
// - SIGBUS, SIGSEGV or a failed assertion in any stage: LMDB's state is lost, and its lock is held.
//
// On a full disk a short write would look like EIO. Therefore the space is reserved with fallocate before the commit,
// for all pages up to the last that the transaction uses. Transactions with messages must leave `spare` bytes of this
// space, and of the map, so that retention can run on a full disk. Free pages count as left: the number of the last
// page never decreases, however much is deleted.

import CLMDB
import CStoreIO
import Glibc

extension Store {
    /// Space that transactions with messages leave for others: 4 MiB on the disk and in the map.
    private static let spare: UInt64 = 4 << 20
    /// Pages of LMDB's list of free pages, which a commit may add: 1 MiB.
    private static let listed: UInt64 = 1 << 20

    /// Runs `body` in a write transaction and commits it. Only the writer's thread may call it.
    /// - Parameters:
    ///   - body: returns whether it has stored messages or topics, which may not use the reserve.
    ///   - reason: the error if `body` has aborted the transaction itself.
    func transact(
        _ body: (Transaction) throws(Failure) -> Bool, reason: () -> StoreError? = { nil }
    ) throws(StoreError) {
        if let failure = writing.failure { throw .unknown(failure) }
        precondition(!options.isReadOnly)
        var pointer: OpaquePointer?
        var before = fb_store_state()
        var code = fb_store_info(environment, &before)
        if code == 0 { code = fb_store_begin(environment, Int32(FB_STORE_WRITE), &pointer) }
        guard code == 0, let pointer else {
            throw Failure(code).isFault || code == MDB_PANIC ? stuck(code) : .aborted(StoreError.text(of: code))
        }
        let transaction = Transaction(pointer: pointer)
        var pages: UInt64 = 0
        do throws(Failure) {
            let isGrowing = try body(transaction)
            pages = try transaction.pages()
            try checkSpace(pointer, pages: pages, isGrowing: isGrowing)
        } catch {
            if error.isFault { throw stuck(error.code) }
            _ = fb_store_abort(pointer)
            throw reason() ?? uncommitted(error)
        }
        code = fb_store_commit(pointer)
        guard code == 0 else { throw failed(code, before) }
        used = pages * pageSize
    }

    /// Checks the store's limit and the map's, and reserves space on the disk for all pages of the transaction.
    private func checkSpace(_ transaction: OpaquePointer, pages: UInt64, isGrowing: Bool) throws(Failure) {
        let spare = isGrowing ? Store.spare : 0
        let needed = fb_store_next_page(environment, transaction) * pageSize + Store.listed
        guard needed > Store.listed else { throw Failure(MDB_VERSION_MISMATCH) }
        let least = max(needed, pages * pageSize + Store.listed + spare)
        if isGrowing, pages * pageSize > options.bytes || least > options.bytes + options.reserve {
            throw Failure(MDB_MAP_FULL)
        }
        guard needed + spare > writing.allocated else { return }
        // The file grows. Perhaps because a tool was ended while it read, and its read transaction still holds pages.
        fb_store_check_readers(environment)
        let wanted = (needed + spare) / Store.spare * Store.spare + Store.spare
        switch fb_store_allocate(fb_store_file(environment), wanted) {
        case 0: writing.allocated = wanted
        // The file system cannot reserve space. A full disk is then noticed by the write.
        case EOPNOTSUPP, ENOSYS: writing.allocated = .max
        case let code where code != ENOSPC && code != EDQUOT: throw Failure(code)
        case let code: if least > writing.allocated { throw Failure(code) }
        }
    }

    /// The error of a transaction that failed before its commit.
    private func uncommitted(_ failure: Failure) -> StoreError {
        switch failure.code {
        case MDB_MAP_FULL, MDB_TXN_FULL, ENOSPC, EDQUOT: return .full
        // LMDB writes pages before the commit if there are very many.
        case EIO: return stop(failure.text)
        default: return .aborted(failure.text)
        }
    }

    /// The error of a failed commit.
    private func failed(_ code: Int32, _ before: fb_store_state) -> StoreError {
        let text = StoreError.text(of: code)
        switch code {
        case MDB_MAP_FULL, MDB_TXN_FULL: return .full
        case ENOSPC, EDQUOT: return isUnchanged(before) ? .full : stop(text)
        case ENOMEM: return isUnchanged(before) ? .aborted(text) : stop(text)
        case MDB_KEYEXIST...MDB_LAST_ERRCODE: return .aborted(text)
        case Failure.fault, Failure.broken: return stuck(code)
        default: return stop(text)
        }
    }

    /// Whether the environment works, and its last commit is the one of `before`.
    private func isUnchanged(_ before: fb_store_state) -> Bool {
        var probe: OpaquePointer?
        guard fb_store_begin(environment, Int32(FB_STORE_WRITE), &probe) == 0 else { return false }
        _ = fb_store_abort(probe)
        var now = fb_store_state()
        return fb_store_info(environment, &now) == 0 && now.last_transaction == before.last_transaction
    }

    /// No commit is possible from now on.
    private func stop(_ reason: String) -> StoreError {
        writing.failure = reason
        return .unknown(reason)
    }

    private func stuck(_ code: Int32) -> StoreError {
        writing.isStuck = true
        return stop(StoreError.text(of: code))
    }
}
