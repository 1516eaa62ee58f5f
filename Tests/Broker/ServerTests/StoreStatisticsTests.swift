// The store's figures: what the writer and the readers count and log, and what operators see of it.

import Core
import EventLoop
import Store
import Testing

@testable import Server

struct StoreStatisticsTests {
    private func cost(_ transaction: UInt64, _ nanoseconds: UInt64 = 1_000_000, bytes: Int = 100) -> CommitCost {
        CommitCost(transaction: transaction, nanoseconds: nanoseconds, bytes: bytes, batches: 2, submissions: 3)
    }

    private func figures(_ statistics: StoreStatistics) -> StoreSnapshot {
        var figures = StoreSnapshot(used: 95, limit: 100, uncommitted: 3, uncommittedLimit: 10)
        statistics.fill(&figures)
        return figures
    }

    private func process(_ store: StoreSnapshot?) -> ProcessStatistics {
        ProcessStatistics(
            uptime: 1, isDraining: false, memory: 2, memoryLimit: 3, unreadMemory: 1, connectionLimit: 4,
            refusedConnections: [], connectionsOverLimit: 6, store: store)
    }

    @Test func aTransactionOfSeveralShardsCountsOnce() throws {
        let statistics = StoreStatistics()
        let log = try silentLog()
        for _ in 0..<3 { statistics.note([.committed, .committed], cost(1), now: 1, log: log) }
        statistics.note([.committed], cost(2, 20_000_000_000, bytes: 1 << 27), now: 2, log: log)
        let figures = figures(statistics)
        #expect(figures.latencies.counts.reduce(0, +) == 2 && figures.latencies.counts.last == 1)
        #expect(figures.latencies.sum == 20_001_000_000 && figures.sizes.sum == 100 + 1 << 27)
        #expect(figures.sizes.counts.first == 1 && figures.sizes.counts.last == 1 && figures.batches == 4)
        #expect(figures.errors.allSatisfy { $0.count == 0 })
    }

    @Test func failuresAreCountedByTransactionAndLoggedOnceAMinute() throws {
        let pipe = try Pipe()
        let log = try Log(level: .info, format: .text, descriptor: pipe.input)
        let statistics = StoreStatistics()
        for shard in 0..<2 { statistics.note([.failed(.full)], cost(1), now: UInt64(shard), log: log) }
        statistics.note([.partial(.full)], cost(2), now: 2, log: log)
        statistics.note([.failed(.aborted("no memory"))], cost(3), now: 3, log: log)
        statistics.note([.failed(.full)], cost(4), now: StoreStatistics.warningInterval + 1, log: log)
        for number in 5..<8 {
            statistics.note(
                [.failed(.unknown("Input/output error"))], cost(UInt64(number)),
                now: UInt64(number) * StoreStatistics.warningInterval, log: log)
        }
        log.close()
        pipe.closeInput()
        let lines = pipe.readAll().split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1)[1] }
        #expect(lines.map { $0.split(separator: "=")[0] }.count == 4)
        #expect(lines.filter { $0.hasPrefix("warn store is full") }.count == 2)
        #expect(lines.contains { $0.hasPrefix("warn commit aborted") && $0.contains("no memory") })
        let failures = lines.filter { $0.hasPrefix("error store failed") }
        #expect(failures.count == 1 && failures[0].contains("Input/output error"))
        let counted = figures(statistics)
        #expect(counted.errors.map(\.count) == [3, 1, 3, 0])
        #expect(counted.failure == "store: outcome unknown: Input/output error")
    }

    @Test func aFailedStoreIsNotReady() throws {
        let info = BrokerInfo(limits: Limits(), listeners: [], httpOrigin: nil)
        let broker = BrokerStatistics(shards: [ShardStatistics()])
        var store = figures(StoreStatistics())
        #expect(AdminAnswer(broker, process(store), info, for: .ready).status == 200)
        store.hasFailed = true
        store.failure = "store: outcome unknown: Input/output error"
        let answer = AdminAnswer(broker, process(store), info, for: .ready)
        #expect(answer.status == 503)
        let text = "the store has failed: store: outcome unknown: Input/output error\n"
        #expect(String(decoding: answer.body, as: UTF8.self) == text)
        #expect(AdminAnswer(broker, process(store), info, for: .alive).status == 200)
    }

    @Test func metricsHaveTheCounts() throws {
        let statistics = StoreStatistics()
        statistics.note([.committed], cost(1, 3_000_000, bytes: 1000), now: 1, log: try silentLog())
        statistics.noteRead(.unreadable(before: 3, reason: "crc"))
        var broker = BrokerStatistics(shards: [ShardStatistics()])
        (broker.topicSums.durable, broker.topicSums.relaxed, broker.topicSums.waitingForStore) = (4, 5, 6)
        let text = Metrics.text(broker, process(figures(statistics)), subscriptions: false)
        for line in [
            "forebay_store_failed 0", "forebay_store_bytes 95", "forebay_store_limit_bytes 100",
            "forebay_store_uncommitted_bytes 3", "forebay_store_uncommitted_limit_bytes 10",
            "forebay_store_topics{storage=\"durable\"} 4", "forebay_store_topics{storage=\"relaxed\"} 5",
            "forebay_store_publishers_blocked 6", "forebay_store_commit_seconds_bucket{le=\"0.0025\"} 0",
            "forebay_store_commit_seconds_bucket{le=\"0.005\"} 1", "forebay_store_commit_seconds_sum 0.003",
            "forebay_store_commit_seconds_count 1", "forebay_store_commit_bytes_bucket{le=\"1024\"} 1",
            "forebay_store_commit_bytes_bucket{le=\"256\"} 0", "forebay_store_batches_total 2",
            "forebay_store_written_bytes_total 1000", "forebay_store_reads_total 1",
            "forebay_store_errors_total{kind=\"unreadable\"} 1", "forebay_store_errors_total{kind=\"full\"} 0",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
        let without = Metrics.text(broker, process(nil), subscriptions: false)
        #expect(without.contains("# TYPE forebay_store_bytes gauge\n"))
        #expect(!without.contains("\nforebay_store_"))
    }
}
