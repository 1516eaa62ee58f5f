// Speed: measurements of the store on this machine. They are printed, not tested.

import CStoreIO
import EventLoop
import Store

enum Speed {
    /// Creates topics with two batches each, and measures opening the store and reading its topics.
    static func topics(_ directory: String, _ count: Int) throws(StoreError) {
        let options = StoreOptions(directory: directory, bytes: 16 << 30)
        var random = Random(state: 1)
        var store = try Store.open(options)
        var left = count
        while left > 0 {
            var writes: [StoreWrite] = []
            for _ in 0..<min(left, 5000) {
                let id = TopicID(random.next())
                writes.append(
                    .create(TopicRecord(id: id, name: "topic-\(left)", epoch: 1, isRelaxed: false, createdAt: 1)))
                writes.append(TestBatch(topic: id, first: 1, bodySize: 1000).write)
                writes.append(TestBatch(topic: id, first: 2, bodySize: 1000).write)
                left -= 1
            }
            _ = try store.commit(writes)
        }
        store.close()
        for _ in 0..<3 {
            let began = Clock.monotonic()
            store = try Store.open(options)
            let opened = Clock.monotonic()
            let topics = try store.topics().count
            let ended = Clock.monotonic()
            Exerciser.report(
                "topics=\(topics) open_ms=\((opened - began) / 1_000_000) topics_ms=\((ended - opened) / 1_000_000)")
            store.close()
        }
    }

    /// Four shards that each have one submission in flight, or many, against one bare commit at a time.
    static func commits(_ directory: String, _ seconds: Int) throws(StoreError) {
        let store = try Store.open(StoreOptions(directory: directory, bytes: 16 << 30))
        let ids = (1...4).map { TopicID(UInt64($0)) }
        _ = try store.commit(
            ids.map {
                .create(TopicRecord(id: $0, name: "topic-\($0.value)", epoch: 1, isRelaxed: false, createdAt: 1))
            })
        var next = Array(repeating: UInt64(1), count: ids.count)
        for size in [1000, 60_000] {
            bare(directory + "/bare-\(size)", size: size, seconds)
            let end = Clock.monotonic() + UInt64(seconds) * 1_000_000_000
            var times: [UInt64] = []
            while Clock.monotonic() < end {
                let began = Clock.monotonic()
                _ = try store.commit([ZeroBatch(first: next[0], bodySize: size).write(ids[0])])
                times.append(Clock.monotonic() - began)
                next[0] += 1
            }
            report("single size=\(size)", times, seconds)
            for depth in [1, 16] { try group(store, ids, &next, size: size, depth: depth, seconds) }
        }
        store.close()
    }

    /// 100 topics with 100 batches of random sizes each, the oldest of which are trimmed.
    static func ring(_ directory: String, _ seconds: Int) throws(StoreError) {
        let store = try Store.open(StoreOptions(directory: directory, bytes: 1 << 30))
        var random = Random(state: 1)
        var next = Array(repeating: UInt64(1), count: 100)
        for id in next.indices {
            _ = try store.commit([
                .create(
                    TopicRecord(id: TopicID(UInt64(id)), name: "\(id)", epoch: 1, isRelaxed: false, createdAt: 1))
            ])
        }
        for second in 1...seconds {
            let end = Clock.monotonic() + 1_000_000_000
            var times: [UInt64] = []
            var bytes = 0
            while Clock.monotonic() < end {
                var writes: [StoreWrite] = []
                for _ in 0..<4 {
                    let id = Int.random(in: 0..<100, using: &random)
                    let size = Int.random(in: 0...Int.random(in: 0...120_000, using: &random), using: &random)
                    writes.append(ZeroBatch(first: next[id], bodySize: size).write(TopicID(UInt64(id))))
                    next[id] += 1
                    if next[id] > 100 { writes.append(.trim(TopicID(UInt64(id)), before: next[id] - 100)) }
                    bytes += size
                }
                let began = Clock.monotonic()
                _ = try store.commit(writes)
                times.append(Clock.monotonic() - began)
            }
            let info = try store.info()
            report(
                "second=\(second) mb=\(bytes >> 20) used_mb=\(info.used >> 20) file_mb=\(info.file >> 20)"
                    + " max_us=\((times.max() ?? 0) / 1000)", times, 1)
        }
        store.close()
    }

    /// One mdb_put and mdb_txn_commit at a time, without this store's rows, checks and checksums.
    private static func bare(_ path: String, size: Int, _ seconds: Int) {
        var environment: OpaquePointer?
        var transaction: OpaquePointer?
        var database: UInt32 = 0
        let value = Array(repeating: UInt8(7), count: size)
        guard fb_store_open(path, 16 << 30, 0, &environment) == 0 else { return }
        defer { fb_store_close(environment) }
        let end = Clock.monotonic() + UInt64(seconds) * 1_000_000_000
        var times: [UInt64] = []
        while Clock.monotonic() < end {
            let began = Clock.monotonic()
            var code = fb_store_begin(environment, Int32(FB_STORE_WRITE), &transaction)
            if database == 0 { code += fb_store_database(transaction, "bare", 1, &database) }
            code += fb_store_put(transaction, database, UInt64(times.count), nil, 0, value, value.count)
            code += fb_store_commit(transaction)
            guard code == 0 else { return }
            times.append(Clock.monotonic() - began)
        }
        report("bare size=\(size)", times, seconds)
    }

    private static func report(_ what: String, _ times: [UInt64], _ seconds: Int) {
        let times = times.sorted()
        Exerciser.report(
            "\(what) commits_per_s=\(times.count / seconds) p50_us=\(times[times.count / 2] / 1000)"
                + " p99_us=\(times[times.count * 99 / 100] / 1000)")
    }

    private static func group(
        _ store: Store, _ ids: [TopicID], _ next: inout [UInt64], size: Int, depth: Int, _ seconds: Int
    ) throws(StoreError) {
        let done = SpeedCounter()
        let writer: StoreWriter
        do throws(SystemError) {
            writer = try StoreWriter(store, interval: 100_000_000) { tag, outcomes, cost in
                done.complete(tag, outcomes.count, outcomes.allSatisfy { $0 == .committed }, cost)
            }
        } catch {
            throw .unusable(error.description)
        }
        let end = Clock.monotonic() + UInt64(seconds) * 1_000_000_000
        var submitted = 0
        var flight = Array(repeating: 0, count: ids.count)
        while Clock.monotonic() < end {
            for tag in ids.indices {
                while flight[tag] < depth {
                    writer.submit(
                        [ZeroBatch(first: next[tag], bodySize: size).write(ids[tag])], tag: tag, isUrgent: true)
                    next[tag] += 1
                    flight[tag] += 1
                    submitted += 1
                }
            }
            for tag in done.take() { flight[tag] -= 1 }
        }
        writer.stop()
        report(
            "group size=\(size) depth=\(depth) failures=\(done.failures) batches_per_s=\(submitted / seconds)",
            done.times, seconds)
    }
}

/// A batch of zeros, so that writing costs more than making it.
private struct ZeroBatch: BatchSource {
    var first: UInt64
    var bodySize: Int
    var count: Int { 1 }
    var firstTimestamp: Int64 { 0 }
    var lastTimestamp: Int64 { 0 }
    var chargedBefore: UInt64 { 0 }
    var chargedAfter: UInt64 { 0 }

    func writeBody(to target: UnsafeMutableRawBufferPointer) { target.initializeMemory(as: UInt8.self, repeating: 7) }
    func write(_ id: TopicID) -> StoreWrite { .append(id, self) }
}

/// Completions, passed from the writer's thread to the submitting one.
private final class SpeedCounter: Sendable {
    private struct State {
        var completed: [Int] = []
        var times: [UInt64] = []
        var failures = 0
    }

    private let state = Monitor(State())

    func complete(_ tag: Int, _ count: Int, _ isCommitted: Bool, _ cost: CommitCost) {
        state.with {
            $0.completed += Array(repeating: tag, count: count)
            // A transaction completes once for each tag.
            if cost.transaction > $0.times.count { $0.times.append(cost.nanoseconds) }
            if !isCommitted { $0.failures += 1 }
        }
        state.signal()
    }

    /// The tags of the submissions that have completed since the last call; waits for at least one.
    func take() -> [Int] {
        state.wait { state, _ in
            defer { state.completed = [] }
            return state.completed.isEmpty ? nil : state.completed
        }
    }

    var times: [UInt64] { state.with { $0.times } }
    var failures: Int { state.with { $0.failures } }
}
