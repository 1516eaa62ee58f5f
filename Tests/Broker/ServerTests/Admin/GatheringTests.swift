// From a request through the shards' answers to the response.

import Core
import EventLoop
import HTTP2
import Testing

@testable import Server

struct GatheringTests {
    private let loop = LoopStatistics()

    private func known(_ count: Int) -> [ShardStatistics] { Array(repeating: ShardStatistics(), count: count) }

    private func part(_ published: UInt64 = 0, next: Int? = nil) -> SurveyPart {
        var counters = ShardCounters()
        counters.published = published
        var part = SurveyPart(counters: counters)
        part.next = next
        return part
    }

    private func table(_ question: Question) -> Survey.Table? {
        if case .survey(let survey) = question.query { survey.table } else { nil }
    }

    @Test func aSurveyGoesOverEachTableOnAllShardsInTurn() throws {
        var gathering = Gathering(.metrics(topics: 10, subscriptions: 0), known: known(2))
        var questions = gathering.start(.metrics(topics: 10, subscriptions: 0))
        #expect(questions.map(\.shard) == [0, 1] && questions.allSatisfy { table($0) == .busiest })
        for shard in 0..<2 { questions = gathering.receive(.survey(part()), from: shard, loop: loop) }
        #expect(questions.map(\.shard) == [0, 1] && questions.allSatisfy { table($0) == .topics })
        // One shard answers in more than one part: the other tables wait for the last one.
        questions = gathering.receive(.survey(part(next: 4096)), from: 0, loop: loop)
        #expect(questions.map(\.shard) == [0])
        guard case .survey(let survey)? = questions.first?.query else { throw Missing() }
        #expect(survey.table == .topics && survey.after == 4096)
        #expect(gathering.receive(.survey(part()), from: 1, loop: loop).isEmpty)
        questions = gathering.receive(.survey(part()), from: 0, loop: loop)
        #expect(questions.map(\.shard) == [0, 1] && questions.allSatisfy { table($0) == .connections })
        #expect(gathering.outcome == nil)
        for shard in 0..<2 { questions = gathering.receive(.survey(part()), from: shard, loop: loop) }
        #expect(questions.count == 2 && questions.allSatisfy { table($0) == .subscriptions })
        for shard in 0..<2 {
            #expect(gathering.receive(.survey(part(UInt64(shard + 3))), from: shard, loop: loop).isEmpty)
        }
        guard case .figures(let figures)? = gathering.outcome else { throw Missing() }
        // The counters are those of the last part.
        #expect(figures.counters.published == 7 && figures.missing.isEmpty)
    }

    @Test func asManyOfTheBusiestAreAskedForAsAreTold() throws {
        let call = AdminCall.metrics(topics: 0, subscriptions: 0)
        var none = Gathering(call, known: known(2))
        #expect(none.start(call).allSatisfy { table($0) == .topics })
        let some = AdminCall.metrics(topics: 2, subscriptions: 0)
        var gathering = Gathering(some, known: known(2))
        guard case .survey(let survey)? = gathering.start(some).first?.query else { throw Missing() }
        #expect(survey.table == .busiest && survey.most == 2)
        var busiest = part()
        busiest.topics = ["a", "b"].map(topic)
        for shard in 0..<2 { _ = gathering.receive(.survey(busiest), from: shard, loop: loop) }
        guard case .figures(let figures) = gathering.giveUp() else { throw Missing() }
        #expect(figures.topics.count == 2)
    }

    @Test func whatIsLookedForIsToldByPages() throws {
        var topics = Selection()
        (topics.limit, topics.skip, topics.find, topics.order) = (2, 1, "Eu", .name)
        var rows = Selection()
        (rows.limit, rows.slow) = (5, true)
        let call = AdminCall.overview(topics: topics, subscriptions: rows)
        var gathering = Gathering(call, known: known(2))
        var questions = gathering.start(call)
        func survey() throws -> Survey {
            guard case .survey(let survey)? = questions.first?.query else { throw Missing() }
            return survey
        }
        #expect(try survey().most == 3 && survey().find.isIn("orders.EU") && !survey().find.isIn("orders.us"))
        #expect(try survey().last == nil && !survey().system)
        var full = part(next: 2048)
        full.topics = ["b.eu", "d.eu", "f.eu"].map(topic)
        full.found = 40
        questions = gathering.receive(.survey(full), from: 0, loop: loop)
        // Rows that sort after the known ones are no longer requested.
        #expect(try survey().after == 2048 && survey().last == topic("f.eu").rank(by: .name))
        var others = part()
        others.topics = ["a.eu", "c.eu"].map(topic)
        others.found = 2
        questions = gathering.receive(.survey(others), from: 1, loop: loop)
        for shard in [0, 0, 1] { questions = gathering.receive(.survey(part()), from: shard, loop: loop) }
        #expect(try survey().slow && survey().topics == ["b.eu", "c.eu"])
        for shard in 0..<2 { questions = gathering.receive(.survey(part()), from: shard, loop: loop) }
        guard case .figures(let figures)? = gathering.outcome else { throw Missing() }
        #expect(figures.topics.map(\.name) == ["b.eu", "c.eu"] && figures.topicsFound == 42)
    }

    private func topic(_ name: String) -> TopicStatistics { TopicStatistics(name: name) }

    @Test func aShardThatDoesNotAnswerIsToldWithWhatItSaidLast() throws {
        var before = known(2)
        before[1].counters.published = 40
        before[1].isResponding = false
        var gathering = Gathering(.stats, known: before)
        _ = gathering.start(.stats)
        _ = gathering.receive(.survey(part(2)), from: 0, loop: loop)
        #expect(gathering.outcome == nil)
        guard case .figures(let figures) = gathering.giveUp() else { throw Missing() }
        #expect(figures.missing == [1] && figures.counters.published == 42)
    }

    @Test func aShardThatDoesNotAnswerKeepsNothingOfTheOthersBack() throws {
        let call = AdminCall.metrics(topics: 10, subscriptions: 0)
        var gathering = Gathering(call, known: known(2))
        _ = gathering.start(call)
        var busiest = part()
        busiest.topics = [topic("busy")]
        _ = gathering.receive(.survey(busiest), from: 0, loop: loop)
        guard case .figures(let figures) = gathering.giveUp() else { throw Missing() }
        #expect(figures.topics.map(\.name) == ["busy"] && figures.missing == [1])

        var topics = Selection()
        (topics.limit, topics.skip, topics.order) = (2, 1, .name)
        let page = AdminCall.overview(topics: topics, subscriptions: Selection())
        gathering = Gathering(page, known: known(2))
        _ = gathering.start(page)
        var first = part()
        first.topics = ["a", "b", "c"].map(topic)
        _ = gathering.receive(.survey(first), from: 0, loop: loop)
        guard case .figures(let rows) = gathering.giveUp() else { throw Missing() }
        #expect(rows.topics.map(\.name) == ["b", "c"])
    }

    @Test func healthIsThatEveryShardAnswers() throws {
        var gathering = Gathering(.alive, known: known(3))
        #expect(gathering.start(.alive).map(\.shard) == [0, 1, 2])
        for shard in [2, 0] { _ = gathering.receive(.present, from: shard, loop: loop) }
        #expect(gathering.outcome == nil)
        guard case .figures(let figures) = gathering.giveUp() else { throw Missing() }
        #expect(figures.missing == [1])
        let info = BrokerInfo(limits: Limits(), listeners: [], httpOrigin: nil)
        let answer = AdminAnswer(figures, process(), info, for: .alive)
        #expect(answer.status == 503 && answer.body == Array("shard 1 is not responding\n".utf8))
    }

    @Test func aListGoesFromShardToShardUntilThePageIsFull() throws {
        let call = AdminCall.list(.topics, ListCursor(shard: 0, place: 5), limit: 3)
        var gathering = Gathering(call, known: known(3))
        var questions = gathering.start(call)
        guard case .page(.topics, after: 5, most: 3)? = questions.first?.query else { throw Missing() }
        questions = gathering.receive(.page(["a"], next: nil), from: 0, loop: loop)
        guard questions.first?.shard == 1, case .page(.topics, after: 0, most: 2)? = questions.first?.query else {
            throw Missing()
        }
        #expect(gathering.receive(.page(["b", "c"], next: 64), from: 1, loop: loop).isEmpty)
        guard case .page(let rows, next: let next)? = gathering.outcome else { throw Missing() }
        #expect(rows == ["a", "b", "c"] && next == ListCursor(shard: 1, place: 64))
        let answer = AdminAnswer(page: ["{}"], next: next)
        #expect(answer.body == Array("{\"items\":[{}],\"next\":\"1-64\"}\n".utf8))
    }

    @Test func aListEndsAndACursorBeyondItIsEmpty() throws {
        let call = AdminCall.list(.topics, ListCursor(shard: 1), limit: 3)
        var gathering = Gathering(call, known: known(2))
        _ = gathering.start(call)
        _ = gathering.receive(.page(["a"], next: nil), from: 1, loop: loop)
        guard case .page(["a"], next: nil)? = gathering.outcome else { throw Missing() }
        let beyond = AdminCall.list(.topics, ListCursor(shard: 2), limit: 3)
        var none = Gathering(beyond, known: known(2))
        #expect(none.start(beyond).isEmpty)
        guard case .page([], next: nil)? = none.outcome else { throw Missing() }
    }

    @Test func aCallGoesToTheShardThatHasIt() throws {
        let call = AdminCall.control(try .closing(.connections, id: "2-0-1"))
        var gathering = Gathering(call, known: known(4))
        #expect(gathering.start(call).map(\.shard) == [2])
        // The reports of the other shards are not needed.
        #expect(gathering.receive(.done("{}"), from: 1, loop: loop).isEmpty)
        #expect(gathering.outcome == nil)
        guard case .refused(let problem) = gathering.giveUp() else { throw Missing() }
        #expect(
            problem.status == 503
                && problem.detail.hasPrefix(
                    "unavailable: The call did not complete in time and may still take effect: shard 2")
        )
    }

    @Test func drainingIsNotReadyAndStillAlive() {
        let info = BrokerInfo(limits: Limits(), listeners: [], httpOrigin: nil)
        let figures = BrokerStatistics(shards: known(1))
        #expect(AdminAnswer(figures, process(draining: true), info, for: .ready).status == 503)
        #expect(AdminAnswer(figures, process(draining: true), info, for: .alive).status == 200)
        #expect(AdminAnswer(figures, process(), info, for: .ready).status == 200)
    }

    @Test func turnsAreCountedInBuckets() {
        var figures = LoopStatistics()
        for nanoseconds in [0, 25_000, 25_001, 1_000_000_000, 5_000_000_000] as [UInt64] { figures.record(nanoseconds) }
        #expect(figures.turns[0] == 2 && figures.turns[1] == 1 && figures.turns[13] == 1 && figures.turns[14] == 1)
        #expect(figures.busy == 6_000_050_001)
        var sum = figures
        sum.add(figures)
        #expect(sum.busy == 2 * figures.busy && sum.turns[0] == 4)
        #expect(
            LoopStatistics.bounds == LoopStatistics.bounds.sorted()
                && figures.turns.count == LoopStatistics.bounds.count + 1)
    }

    @Test func theMostWorkOfATurnIsKept() {
        var figures = LoopStatistics()
        var calls = 0
        func turn(end: UInt64, work: UInt64) {
            figures.record(1, end: end) {
                calls += 1
                return work
            }
        }
        let millisecond: UInt64 = 1_000_000
        // The first turn sets the thread's starting point.
        turn(end: 5 * millisecond, work: 70 * millisecond)
        #expect(figures.mostWork == 0)
        // Short turns are measured together with the one that completes the millisecond.
        turn(end: 5 * millisecond + 400_000, work: 71 * millisecond)
        turn(end: 5 * millisecond + 999_999, work: 72 * millisecond)
        #expect(calls == 1)
        turn(end: 30 * millisecond, work: 94 * millisecond)
        #expect(calls == 2 && figures.mostWork == 24 * millisecond)
        turn(end: 60 * millisecond, work: 95 * millisecond)
        #expect(figures.mostWork == 24 * millisecond)
        var sum = LoopStatistics()
        sum.add(figures)
        #expect(sum.mostWork == 24 * millisecond)
    }

    @Test func metricsAreBoundedAndEscaped() {
        var out = Exposition()
        out.family("a_total", .counter, "A.")
        out.sample(["x": "q\"b\\n\n"], 1)
        out.single("b_seconds", .gauge, "B.", nanoseconds: 1_500_000_000)
        #expect(
            out.text == """
                # HELP a_total A.
                # TYPE a_total counter
                a_total{x="q\\"b\\\\n\\n"} 1
                # HELP b_seconds B.
                # TYPE b_seconds gauge
                b_seconds 1.5

                """)
        let text = Metrics.text(BrokerStatistics(shards: known(2)), process(), subscriptions: true)
        let names = text.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }.map { $0.split(separator: " ")[2] }
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { $0.hasPrefix("forebay_") || $0.hasPrefix("process_") })
        #expect(text.contains("forebay_loop_turn_seconds_bucket{le=\"+Inf\"} 0\n"))
    }

    @Test func thePageIsFoundUnderItsOrigins() throws {
        let address = try Endpoint(host: "127.0.0.1", port: 7692).resolve()
        let all = try Endpoint(host: "0.0.0.0", port: 7691).resolve()
        #expect(
            AdminSettings.origins(of: address, isSecure: false, names: .listed(["b.example"])) == [
                "http://127.0.0.1:7692", "http://localhost:7692", "http://b.example:7692",
            ])
        #expect(AdminSettings.origins(of: all, isSecure: false, names: .any).contains("http://127.0.0.1:7691"))
        #expect(
            AdminSettings.origins(of: address, isSecure: true, names: .any) == [
                "https://127.0.0.1:7692", "https://localhost:7692",
            ])
        let guarding = AdminGuard(hosts: HostPolicy())
        let settings = AdminSettings(guarding: guarding, listeners: [listener(all[0])], started: 0)
        #expect(settings.httpOrigin(for: "b.example:7692") == "http://b.example:7691")
        let fixed = AdminSettings(guarding: guarding, listeners: [listener(address[0])], started: 0)
        #expect(fixed.httpOrigin(for: "localhost:7692") == "http://127.0.0.1:7692")
        #expect(AdminSettings(guarding: guarding, listeners: [], started: 0).httpOrigin(for: "a") == nil)
    }

    /// The certificate may contain only the name by which the page was reached.
    @Test func overTLSTheNameStaysWhereItLeadsToTheSameAddress() throws {
        let local = try Endpoint(host: "127.0.0.1", port: 7691).resolve()[0]
        let other = try Endpoint(host: "127.0.0.2", port: 7692).resolve()[0]
        let guarding = AdminGuard(hosts: HostPolicy())
        func origin(_ http: BoundListener, admin: SocketAddress) -> String? {
            let beside = BoundListener(name: "admin", address: admin, isSecure: true)
            return AdminSettings(guarding: guarding, listeners: [http, beside], started: 0)
                .httpOrigin(for: "b.example:7692")
        }
        var admin = local
        admin.port = 7692
        #expect(origin(listener(local, isSecure: true), admin: admin) == "https://b.example:7691")
        #expect(origin(listener(local, isSecure: true), admin: other) == "https://127.0.0.1:7691")
        #expect(origin(listener(local), admin: admin) == "http://127.0.0.1:7691")
    }

    private func listener(_ address: SocketAddress, isSecure: Bool = false) -> BoundListener {
        BoundListener(name: "http", address: address, isSecure: isSecure)
    }

    private struct Missing: Error {}

    private func process(draining: Bool = false) -> ProcessStatistics {
        ProcessStatistics(
            uptime: 1, isDraining: draining, memory: 2, memoryLimit: 3, unreadMemory: 1, connectionLimit: 4,
            refusedConnections: [("files", 5)], connectionsOverLimit: 6, patternLimit: 7)
    }
}
