// CommitsRun: LMDB commits in this process, one message at a time: what a broker on LMDB cannot exceed with one publish
// in flight.

import CLMDB
import EventLoop
import Glibc
import Measure

extension Bench {
    func commits(payload: Int, _ contender: Contender) throws(BenchError) -> Figure {
        let directory = try newDirectory(for: contender)
        defer { Files.remove(directory) }
        let database = try CommittingDatabase(directory + "/data", payload: payload)
        var end = Clock.monotonic() + budget.warmUp
        while Clock.monotonic() < end { try database.commit() }
        database.histogram.removeAll()
        let before = ProcessStatistics.time(of: getpid()).used
        let began = Clock.monotonic()
        end = began + budget.paced
        while Clock.monotonic() < end { try database.commit() }
        let seconds = Double(Clock.monotonic() - began) / 1e9
        let cpu = Double(ProcessStatistics.time(of: getpid()).used - before)
        let count = Double(database.histogram.count)
        var figure = Figure()
        figure[.cpuPerAcknowledgement] = cpu / count
        figure[.acknowledgementsPerCPUSecond] = count / cpu * 1e9
        figure[.acknowledgementsPerSecond] = count / seconds
        figure.set(database.histogram)
        return figure
    }
}

/// A database of the latest 1,024 messages, as many as the brokers retain.
private final class CommittingDatabase {
    var histogram = Histogram()
    private var environment: OpaquePointer?
    private var table: UInt32 = 0
    private var number = 0
    private let value: [UInt8]

    init(_ path: String, payload: Int) throws(BenchError) {
        value = [UInt8](repeating: UInt8(ascii: "x"), count: payload)
        try CommittingDatabase.check(mdb_env_create(&environment))
        try CommittingDatabase.check(mdb_env_set_mapsize(environment, 1 << 28))
        try CommittingDatabase.check(mdb_env_open(environment, path, UInt32(MDB_NOSUBDIR), 0o600))
    }

    deinit { mdb_env_close(environment) }

    /// Puts a message, commits and syncs.
    func commit() throws(BenchError) {
        let began = Clock.monotonic()
        var transaction: OpaquePointer?
        try CommittingDatabase.check(mdb_txn_begin(environment, nil, 0, &transaction))
        try CommittingDatabase.check(mdb_dbi_open(transaction, nil, 0, &table))
        var key = UInt64(number % 1024).bigEndian
        let result = value.withUnsafeBytes { value in
            withUnsafeMutableBytes(of: &key) { key in
                var name = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
                var data = MDB_val(mv_size: value.count, mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
                return mdb_put(transaction, table, &name, &data, 0)
            }
        }
        try CommittingDatabase.check(result)
        try CommittingDatabase.check(mdb_txn_commit(transaction))
        number += 1
        histogram.record(Clock.monotonic() - began)
    }

    private static func check(_ result: Int32) throws(BenchError) {
        if result != 0 { throw BenchError("LMDB failed: \(String(cString: mdb_strerror(result)))") }
    }
}
