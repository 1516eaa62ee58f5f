// How `forebay bench` evaluates received messages, and when it sends.

import Bytes
import Testing

@testable import forebay

@Suite struct BenchTests {
    private func settings(_ words: String...) throws -> BenchSettings {
        try BenchSettings(Arguments(["bench"] + words, commands: commandTable, common: commonOptions))
    }

    /// One subscriber, fed by hand.
    private struct Feed {
        let settings: BenchSettings
        var audit: BenchAudit
        var deliveries = BenchDeliveries()

        init(_ settings: BenchSettings) {
            self.settings = settings
            audit = BenchAudit(settings)
        }

        mutating func take(_ publisher: UInt32, _ number: UInt64, tag: UInt32? = nil) {
            var payload = BenchMessage.blank(size: settings.size)
            payload.withMutableReadable {
                BenchMessage.write(
                    .init(publisher: publisher, number: number), tag: tag ?? settings.tag, to: $0)
            }
            _ = audit.take(payload.readable, &deliveries)
        }

        mutating func take(bytes: Int) {
            let payload = BenchMessage.blank(size: bytes)
            _ = audit.take(payload.readable, &deliveries)
        }
    }

    @Test func gapsAreLostWhereverTheyAre() throws {
        var feed = Feed(try settings("--publishers", "2"))
        for number: UInt64 in [0, 1, 5] { feed.take(0, number) }
        feed.take(1, 2)
        #expect(feed.deliveries.lost == 3 + 2)
        feed.audit.account([8, 3], &feed.deliveries)
        #expect(feed.deliveries.lost == 3 + 2 + 2)
        #expect(feed.deliveries.messages == 4 && feed.deliveries.misplaced == 0)
    }

    @Test func whatComesTwiceOrLateIsMisplaced() throws {
        var feed = Feed(try settings())
        for number: UInt64 in [0, 1, 1, 3, 2] { feed.take(0, number) }
        #expect(feed.deliveries.messages == 3 && feed.deliveries.misplaced == 2 && feed.deliveries.lost == 1)
    }

    @Test func messagesOfOthersDoNotCount() throws {
        let settings = try settings()
        var feed = Feed(settings)
        feed.take(0, 0, tag: settings.tag &+ 1)
        feed.take(1, 0)
        for bytes in [0, 15, 16, settings.size] { feed.take(bytes: bytes) }
        #expect(feed.deliveries.foreign == 6 && feed.deliveries.messages == 0)
    }

    @Test func marksAreNoMessages() throws {
        for size in ["0", "16", "1000"] {
            let settings = try settings("--size", size)
            var audit = BenchAudit(settings)
            var deliveries = BenchDeliveries()
            for round: UInt64 in [0, 2, 1] {
                let mark = BenchMessage.mark(round, settings)
                _ = audit.take(mark.readable, &deliveries)
            }
            #expect(audit.round == 2 && deliveries.messages == 0 && deliveries.foreign == 0)
        }
    }

    @Test func withoutNumbersTheCountDecides() throws {
        var feed = Feed(try settings("--size", "15", "--publishers", "2"))
        for _ in 0..<5 { feed.take(bytes: 15) }
        feed.take(bytes: 14)
        feed.audit.account([3, 4], &feed.deliveries)
        #expect(feed.deliveries.messages == 5 && feed.deliveries.lost == 2 && feed.deliveries.foreign == 1)
    }

    @Test func publishersShareTheCount() throws {
        let cases = [(["--count", "7"], 7), (["--count", "2"], 2), (["--rate", "10", "--seconds", "0.55"], 6)]
        for (words, all) in cases {
            let settings = try BenchSettings(
                Arguments(["bench", "--publishers", "3"] + words, commands: commandTable, common: commonOptions))
            let quotas = (0..<3).map { settings.quota(of: $0) }
            #expect(quotas.reduce(0, +) == UInt64(all) && quotas == quotas.sorted(by: >))
            #expect(quotas[0] - quotas[2] <= 1)
        }
        #expect(try settings("--seconds", "1").quota(of: 0) == .max)
    }

    @Test func publishersTakeTurnsInTheSchedule() throws {
        let settings = try settings("--rate", "1000", "--publishers", "2")
        let schedule = try #require(settings.schedule(start: 5_000_000))
        #expect(schedule.due(0, 0) == 5_000_000)
        #expect(schedule.due(1, 0) == 6_000_000)
        #expect(schedule.due(0, 1) == 7_000_000)
        #expect(schedule.due(1, 1_000_000) == 5_000_000 + 2_000_001 * 1_000_000)
        #expect(try self.settings().schedule(start: 0) == nil)
    }

    @Test func rowsAreAligned() {
        let rows = [["", "a second", "note"], ["published", "7", "x"], ["lost", "1,000,000", ""]]
        #expect(
            BenchResult.grid(rows) == """
                            a second  note
                published          7  x
                lost       1,000,000

                """)
    }
}
