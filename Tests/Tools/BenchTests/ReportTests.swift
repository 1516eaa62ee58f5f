// ReportTests: medians, goals, numbers, and parsing of /proc.

import Glibc
import Testing

@testable import Bench

struct ReportTests {
    @Test func mediansAndSpread() {
        #expect(Statistics.median([]) == nil)
        #expect(Statistics.median([3, 1, 2]) == 2)
        #expect(Statistics.median([4, 1, 2, 3]) == 2.5)
        #expect(Statistics.spread([2, 1, 3]) == 1)
        #expect(Statistics.spread([2]) == nil)
    }

    @Test func numbersAreReadable() {
        #expect(Text.number(1_234_567, decimals: 0) == "1,234,567")
        #expect(Text.number(0.055, decimals: 2) == "0.06")
        #expect(Text.number(-1234.5, decimals: 1) == "-1,234.5")
        #expect(Text.number(.infinity, decimals: 0) == "-")
        #expect(Text.short(9.994) == "9.99" && Text.short(31.25) == "31.3" && Text.short(427.2) == "427")
        #expect(Text.value(1500, .p99) == "1.50 µs")
        #expect(Text.value(3072, .perSubscriber) == "3.00 KiB")
        #expect(Text.value(1023.6, .perTopic) == "1,024 B" && Text.value(1.25, .slowdown) == "1.25")
        #expect(Text.value(0.00257, .rest) == "0.26 %" && Text.value(123_456.7, .pairs) == "123,457/s")
    }

    private func series(_ values: [Double], _ metric: Metric) -> Series {
        Series(
            figures: values.map { value in
                var figure = Figure()
                figure[metric] = value
                return figure
            })
    }

    @Test func goalsCompareMedians() {
        let byName = ["a": series([10, 20, 90], .p99), "b": series([40, 41, 30], .p99)]
        let ratio = Goal(.ratio("b", over: "a"), .p99, .atLeast(2))
        #expect(ratio.outcome(byName) == 2)
        #expect(ratio.isReached(by: 2) && !ratio.isReached(by: 1.99))
        let difference = Goal(.difference("b", minus: "a"), .p99, .atMost(20))
        #expect(difference.outcome(byName) == 20)
        #expect(difference.isReached(by: 20) && !difference.isReached(by: 20.1))
        #expect(Goal(.value("c"), .p99, .atMost(1)).outcome(byName) == nil)
        #expect(Goal(.value("a"), .p50, .atMost(1)).outcome(byName) == nil)
    }

    @Test func procIsRead() {
        #expect(ProcessStatistics.schedstat("2062760123 55 1\n") == CPUTime(used: 2_062_760_123, waited: 55))
        #expect(ProcessStatistics.schedstat("") == nil)
        let status = "Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t    1000 kB\nRssAnon:\t     3 kB\n"
        #expect(ProcessStatistics.kilobytes("VmRSS", in: status) == 1000)
        #expect(ProcessStatistics.kilobytes("VmSwap", in: status) == 0)
        let memory = ProcessMemory(status: status)
        #expect(memory.resident == 1000 << 10 && memory.peak == 1234 << 10 && memory.anonymous == 3 << 10)
        let own = ProcessStatistics.memory(of: getpid())
        #expect(own.resident > 1 << 20 && own.peak >= own.resident)
        #expect(ProcessStatistics.time(of: getpid()).used > 0)
    }

    @Test func theTableShowsEveryContenderAndTheJSONIsWhole() throws {
        var results = Results(cases: [Catalogue.cases[0]])
        for index in results.series[0].indices {
            var figure = Figure()
            figure[.cpuPerDelivery] = Double(100 * (index + 1))
            results.series[0][index].figures = [figure]
        }
        results.series[0][2].figures = []
        results.series[0][2].failures = ["it \"broke\"\n"]
        let table = results.table()
        for contender in Catalogue.cases[0].contenders {
            #expect(table.contains("\(contender.name) "))
        }
        #expect(table.contains("fanout-1, nats: it \"broke\""))
        // redis ÷ forebay is 4, and forebay ÷ pump is a half; there is no figure for nats.
        #expect(table.contains("4.00  (≥ 4.00)  reached") && table.contains("0.50  (≤ 1.50)  reached"))
        #expect(!table.contains("nats ÷ forebay"))
        let json = results.json()
        #expect(json.contains("\"it \\\"broke\\\"\\u000a\""))
        #expect(json.contains("\"cpu_ns_per_delivery\":400.0"))
        #expect(json.filter { $0 == "{" }.count == json.filter { $0 == "}" }.count)
    }

    @Test func casesAreWhatTheyAreCalled() {
        #expect(Set(Catalogue.cases.map(\.name)).count == Catalogue.cases.count)
        for entry in Catalogue.cases {
            let names = entry.contenders.map(\.name)
            #expect(Set(names).count == names.count)
            // Every goal refers to contenders that are run.
            let named = Dictionary(
                uniqueKeysWithValues: names.map { name in
                    var figure = Figure()
                    for metric in Metric.allCases { figure[metric] = 1 }
                    return (name, Series(figures: [figure]))
                })
            for goal in entry.goals { #expect(goal.outcome(named) != nil) }
        }
    }

    @Test func aContenderIsNamedForWhatIsParticular() {
        #expect(Contender(system: .forebay, subscribers: 1000).name == "forebay 1000 subscribers")
        #expect(Contender(system: .forebay, otherTopics: 99_000).name == "forebay +99000 topics")
        #expect(Contender(system: .forebay, churners: 60).name == "forebay +60 churning")
        #expect(Contender(system: .nats, storage: .synced).name == "nats synced")
    }

    @Test func aStoringContenderIsConfiguredToSync() {
        func launch(_ system: System, _ storage: Storage?) -> Launch {
            Launch(Contender(system: system, storage: storage), port: 1, subscriberPort: 1)
        }
        for (storage, sync, option) in [(Storage.synced, "always", "--durable"), (.unsynced, "everysec", "--relaxed")] {
            #expect(launch(.redis, storage).arguments.suffix(4) == ["--appendonly", "yes", "--appendfsync", sync])
            #expect(launch(.forebay, storage).arguments.suffix(4) == ["--store", "store", option, ">"])
        }
        let one = Contender(system: .forebay, storage: .synced, stored: "bench0")
        #expect(Launch(one, port: 1, subscriberPort: 1).arguments.suffix(2) == ["--durable", "bench0"])
        #expect(launch(.redis, nil).arguments.contains("no") && !launch(.forebay, nil).arguments.contains("--store"))
        #expect(launch(.nats, .synced).configuration?.contains("sync_interval: always") == true)
        let unsynced = launch(.nats, .unsynced).configuration ?? ""
        #expect(unsynced.contains("store_dir") && !unsynced.contains("sync_interval"))
        #expect(launch(.nats, nil).configuration?.contains("jetstream") == false)
    }

    @Test func lagIsOneMebibyteWithinBounds() {
        #expect(Throughput(subscribers: 1).lag == 8192)
        #expect(Throughput(subscribers: 1, payload: 16).lag == 8192)
        #expect(Throughput(subscribers: 1, payload: 1024).lag == 1024)
        #expect(Throughput(subscribers: 1, payload: 16 << 10).lag == 64)
    }
}
