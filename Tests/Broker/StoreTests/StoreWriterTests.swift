// Tests of StoreWriter and StoreReaders: group commit, order, failures, clean ends.

import EventLoop
import Foundation
import Testing

@testable import Store
@testable import store_exerciser

struct StoreWriterTests {
    /// Collects what a writer completes.
    private final class Outcomes: Sendable {
        struct Seen {
            var outcomes: [Int: [StoreOutcome]] = [:]
            var transactions = 0
            var submissions: [Int] = []
        }

        let seen = Monitor(Seen())
        /// Blocks the writer in its first completion.
        let gate = Monitor(true)

        func completion(_ tag: Int, _ outcomes: [StoreOutcome], _ cost: CommitCost) {
            seen.with {
                $0.outcomes[tag, default: []] += outcomes
                $0.submissions.append(cost.submissions)
            }
            seen.signalAll()
            gate.wait { isOpen, _ in isOpen ? () : nil }
        }

        func close() { gate.with { $0 = false } }

        func open() {
            gate.with { $0 = true }
            gate.signalAll()
        }

        func wait(_ tag: Int, _ count: Int) -> [StoreOutcome] {
            seen.wait { seen, _ in
                let outcomes = seen.outcomes[tag] ?? []
                return outcomes.count >= count ? outcomes : nil
            }
        }
    }

    private func withWriter(
        _ folder: String, bytes: UInt64 = 64 << 20, interval: UInt64 = 3_600_000_000_000,
        _ body: (Store, StoreWriter, Outcomes) throws -> Void
    ) throws {
        let store = try open(folder, bytes: bytes)
        let outcomes = Outcomes()
        let writer = try StoreWriter(store, interval: interval, completion: outcomes.completion)
        try body(store, writer, outcomes)
        writer.stop()
        store.close()
    }

    @Test func everySubmissionIsCompletedInOrder() throws {
        try withFolder { folder in
            try withWriter(folder) { store, writer, outcomes in
                let threads = (1...4).map { tag in
                    Thread {
                        let topic = TopicID(UInt64(tag))
                        writer.submit([.create(record(topic.value))], tag: tag, isUrgent: true)
                        for sequence in 1...500 {
                            let batch = TestBatch(topic: topic, first: UInt64(sequence))
                            writer.submit([batch.write], tag: tag, isUrgent: sequence % 7 != 0)
                        }
                        writer.submit([.end(topic, .completed)], tag: tag, isUrgent: true)
                    }
                }
                for thread in threads { thread.start() }
                for tag in 1...4 {
                    #expect(outcomes.wait(tag, 502) == Array(repeating: .committed, count: 502))
                    #expect(store.all(TopicID(UInt64(tag))).map(\.first) == Array(1...500))
                }
            }
            let store = try open(folder)
            #expect(try store.topics().allSatisfy { $0.end == 501 && $0.record.end == .completed })
            #expect(!store.startedAfterCrash)
            store.close()
        }
    }

    @Test func whatArrivesDuringACommitIsOneTransaction() throws {
        try withFolder { folder in
            try withWriter(folder) { _, writer, outcomes in
                outcomes.close()
                writer.submit([.create(record(1))], tag: 1, isUrgent: true)
                _ = outcomes.wait(1, 1)
                for sequence: UInt64 in 1...30 {
                    writer.submit(
                        [TestBatch(topic: TopicID(1), first: sequence).write], tag: 1, isUrgent: sequence == 20)
                }
                outcomes.open()
                _ = outcomes.wait(1, 31)
                #expect(outcomes.seen.with { $0.submissions } == [1, 30])
            }
        }
    }

    @Test func aBacklogIsCutIntoTransactions() throws {
        try withFolder { folder in
            try withWriter(folder, bytes: 512 << 20) { store, writer, outcomes in
                outcomes.close()
                writer.submit([.create(record(1))], tag: 1, isUrgent: true)
                _ = outcomes.wait(1, 1)
                var first: UInt64 = 1
                for size in [10, 10, 10, 10, 50, 1, 1] {
                    let batch = TestBatch(topic: TopicID(1), first: first, bodySize: size << 20)
                    writer.submit([batch.write], tag: 1, isUrgent: true)
                    first += 1
                }
                outcomes.open()
                #expect(outcomes.wait(1, 8) == Array(repeating: .committed, count: 8))
                #expect(outcomes.seen.with { $0.submissions } == [1, 3, 1, 1, 2])
            }
        }
    }

    @Test func relaxedSubmissionsWaitForTheInterval() throws {
        try withFolder { folder in
            try withWriter(folder, interval: 50_000_000) { _, writer, outcomes in
                let began = Clock.monotonic()
                writer.submit([.create(record(1))], tag: 1, isUrgent: false)
                writer.submit([.create(record(2))], tag: 2, isUrgent: false)
                _ = outcomes.wait(2, 1)
                #expect(Clock.monotonic() - began >= 50_000_000)
                #expect(outcomes.seen.with { $0.submissions } == [2, 2])
            }
            // Stopping writes them too.
            try withWriter(folder) { _, writer, _ in
                writer.submit([.create(record(3))], tag: 1, isUrgent: false)
            }
            let store = try open(folder)
            #expect(try store.topics().count == 3)
            store.close()
        }
    }

    @Test func afterAFailureTheNextMessagesAreRefusedUntilTheirSequencesAreTakenAgain() throws {
        try withFolder { folder in
            try withWriter(folder, bytes: 2 << 20) { store, writer, outcomes in
                let topic = TopicID(1)
                func batch(_ first: UInt64, _ size: Int = 100) -> StoreWrite {
                    TestBatch(topic: topic, first: first, bodySize: size).write
                }
                writer.submit([.create(record(1)), batch(1), batch(2)], tag: 1, isUrgent: true)
                #expect(outcomes.wait(1, 1) == [.committed])
                // Too large, with a trim and an end that must get through.
                writer.submit([batch(3, 3 << 20), .trim(topic, before: 2)], tag: 1, isUrgent: true)
                writer.submit([.end(topic, .completed)], tag: 2, isUrgent: true)
                writer.submit([batch(4)], tag: 1, isUrgent: true)
                writer.submit([.trim(topic, before: 1), batch(5)], tag: 1, isUrgent: true)
                writer.submit([batch(3)], tag: 1, isUrgent: true)
                let refusal = StoreError.aborted("earlier messages of the topic were not stored")
                // Submissions of one transaction fail together.
                let possible: [StoreOutcome] = [
                    .failed(refusal), .partial(refusal), .failed(.full), .partial(.full),
                ]
                let seen = outcomes.wait(1, 5)
                #expect(seen[1...3].allSatisfy(possible.contains))
                #expect(seen[4] == .committed || possible.contains(seen[4]))
                #expect(outcomes.wait(2, 1) == [.committed])
                writer.submit([batch(3)], tag: 1, isUrgent: true)
                _ = outcomes.wait(1, 6)
                #expect(store.all(topic, from: 2).map(\.first) == [2, 3])
                let ended = try store.topics()[0].record.end
                #expect(ended == .completed)
            }
        }
    }

    @Test func deletedTopicsArePurgedWhenTheWriterIsIdle() throws {
        try withFolder { folder in
            try withWriter(folder) { store, writer, outcomes in
                let topic = TopicID(1)
                let batches = (1...5000).map { TestBatch(topic: topic, first: UInt64($0), bodySize: 1).write }
                writer.submit([.create(record(1))] + batches, tag: 1, isUrgent: true)
                writer.submit([.delete(topic), .purge(topic)], tag: 1, isUrgent: true)
                #expect(outcomes.wait(1, 2) == [.committed, .committed])
                let deadline = Clock.monotonic() + 20_000_000_000
                while try store.info().deleted > 0, Clock.monotonic() < deadline { usleep(1000) }
                #expect(try store.info().batches == 0)
            }
        }
    }

    @Test func readersServeWhatWaitsAndRefuseWhatIsTooMuch() throws {
        try withFolder { folder in
            let store = try open(folder)
            _ = try store.commit([.create(record(1)), TestBatch(topic: TopicID(1), first: 1).write])
            let readers = try StoreReaders(store, count: 2, limit: 4)
            let found = Monitor((reads: 0, positions: [StorePosition](), isOpen: false))
            func read() -> Bool {
                readers.read(TopicID(1), from: 1, upTo: 2, bytes: 1) { read in
                    found.wait { state, _ in state.isOpen ? () : nil }
                    found.with { $0.reads += read.batches?.count ?? 0 }
                }
            }
            // Two are being served, and four wait.
            var accepted = 0
            let deadline = Clock.monotonic() + 20_000_000_000
            while accepted < 6, Clock.monotonic() < deadline { if read() { accepted += 1 } }
            #expect(accepted == 6 && !read())
            found.with { $0.isOpen = true }
            found.signalAll()
            while !readers.first(
                TopicID(1), atOrAfter: 0,
                completion: { position in
                    found.with { $0.positions.append(position) }
                })
            {}
            readers.stop()
            #expect(found.with { $0.reads } == 6)
            #expect(found.with { $0.positions } == [.sequence(1)])
            store.close()
        }
    }
}
