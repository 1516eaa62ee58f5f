// How `top` processes the broker's rows, and what it displays.

import Testing

@testable import forebay

@Suite struct TopTests {
    private func topic(_ name: String, _ published: UInt64, epoch: String = "1") -> TopTopic {
        var topic = TopTopic()
        (topic.name, topic.published, topic.delivered, topic.epoch, topic.state) =
            (name, published, 2 * published, epoch, "live")
        return topic
    }

    private func row(_ id: Int, behind: UInt64 = 0, waiting: UInt64 = 0, dropped: UInt64 = 0) -> TopSubscription {
        var row = TopSubscription()
        row.id = "\(id)"
        row.topic = "t\(id % 3)"
        row.client = "127.0.0.1:\(id)"
        row.policy = "drop-oldest"
        row.buffer = 20
        (row.behind, row.waiting, row.dropped, row.waitsFor) = (
            behind, waiting, dropped, waiting > 0 ? "credit" : "nothing"
        )
        return row
    }

    private func state(_ rows: [TopSubscription], order: TopOrder = .behind) -> TopState {
        var state = TopState(address: "here")
        state.order = order
        state.beginTopics()
        state.add(topic: topic("t1", 5))
        state.endTopics(now: 1_000_000_000)
        state.beginSubscriptions()
        for row in rows { state.add(subscription: row) }
        state.endSubscriptions(now: 1_000_000_000)
        return state
    }

    @Test func storedTopicsHaveAColumnMore() throws {
        func heads(_ rows: [String], width: Int = 140) throws -> [String] {
            var state = TopState(address: "here")
            state.beginTopics()
            for row in rows { state.add(topic: TopTopic(try #require(JSON(row)))) }
            state.endTopics(now: 1_000_000_000)
            return TopView.render(state, width: width, height: 24).map(\.text)
        }
        let stored = "{\"name\":\"d\",\"storage\":\"durable\",\"uncommitted\":3,\"publishers_blocked\":2,"
        let lines = try heads([stored + "\"publishers_wait_for\":\"store\"}", "{\"name\":\"m\"}"])
        #expect(lines.contains { $0.contains("TOPIC") && $0.contains("STORAGE") })
        #expect(lines.contains { $0.contains(" d ") && $0.contains("2 store") && $0.contains("durable") })
        #expect(lines.contains { $0.contains(" m ") && $0.contains("memory") })
        #expect(!(try heads(["{\"name\":\"m\"}"]).contains { $0.contains("STORAGE") }))
        #expect(!(try heads([stored + "\"first\":1}"], width: 80).contains { $0.contains("STORAGE") }))
    }

    @Test func aFailedStoreIsShown() throws {
        var state = TopState(address: "here")
        state.take(stats: try #require(JSON("{\"store_failed\":true}")), now: 1)
        #expect(TopView.render(state, width: 120, height: 24).contains { $0.text.contains("the store has failed") })
        state.take(stats: try #require(JSON("{\"connections\":1}")), now: 2)
        #expect(!TopView.render(state, width: 120, height: 24).contains { $0.text.contains("the store has failed") })
    }

    @Test func theConnectionToNATSIsShown() throws {
        func line(_ upstream: String) throws -> ViewLine {
            var state = TopState(address: "here")
            state.take(stats: try #require(JSON("{\"upstream\":\(upstream)}")), now: 1)
            let lines = TopView.render(state, width: 220, height: 24)
            #expect(lines.count == 24)
            return try #require(lines.first { $0.text.hasPrefix(" NATS: ") })
        }
        let good = try line(
            """
            {"connected":true,"since_ms":302000,"server":"nats://10.0.0.5:4222","topics":12,"topics_joining":1,
            "topics_absent":2,"unread":1500,"publishes_waiting":3,"publish_wait_ms":1200,"lost":1}
            """)
        let words =
            "connected to nats://10.0.0.5:4222 for 5 min 02 s, 3 publishes waiting for up to 1.2 s, "
            + "1,500 messages to read, 1 message lost, 12 topics, 1 joining, 2 absent"
        #expect(good.text == " NATS: " + words && good.style == .plain)
        let quiet = try line("{\"connected\":true,\"since_ms\":900,\"server\":\"nats://a:1\",\"topics\":1,\"lost\":0}")
        #expect(quiet.text == " NATS: connected to nats://a:1 for 900 ms, 1 topic" && quiet.style == .plain)
        let bad = try line("{\"connected\":false,\"since_ms\":1000,\"cause\":\"It is down.\"}")
        #expect(bad.text == " NATS: not connected for 1.0 s: It is down." && bad.style == .warning)
        let worse = try line("{\"connected\":false,\"unavailable\":true,\"since_ms\":1000}")
        #expect(worse.text == " NATS: not connected for 1.0 s; shared topics are unavailable")
        var state = TopState(address: "here")
        state.take(stats: try #require(JSON("{\"connections\":1}")), now: 1)
        #expect(!TopView.render(state, width: 220, height: 24).contains { $0.text.contains("NATS") })
    }

    @Test func readsTheBrokersRows() throws {
        let json = try #require(
            JSON(
                """
                {"id":7,"topic":"a","peer":"p","policy":"latest","buffer":1,"outstanding":"unbounded","waiting":1,
                "dropped":9,"behind_ms":2000,"waits_for":"socket"}
                """))
        let row = TopSubscription(json)
        #expect(row.credit == nil && row.waiting == 1 && row.isSlow && row.words == "not reading")
        // A row from a broker that reports fewer fields.
        let old = TopSubscription(try #require(JSON("{\"id\":7,\"waiting\":1,\"outstanding\":3}")))
        #expect(old.credit == 3 && !old.isSlow && old.words == "keeping up")
        // A shared topic that is not known yet, or does not exist.
        let begun = TopSubscription(try #require(JSON("{\"id\":7,\"waiting\":0,\"waits_for\":\"topic\"}")))
        #expect(!begun.isSlow && begun.words == "waits for topic")
        let pattern = TopSubscription(try #require(JSON("{\"id\":7,\"topic\":\"a.>\",\"cursors\":1234,\"skipped\":0}")))
        #expect(pattern.title == "a.> (1,234 active)" && row.title == "a")
        let full = TopSubscription(try #require(JSON("{\"id\":7,\"topic\":\"a.>\",\"cursors\":1234,\"skipped\":5}")))
        #expect(full.title == "a.> (1,234 active, 5 skipped)")
    }

    @Test(arguments: [
        (TopOrder.behind, ["3", "2", "1"]), (.dropped, ["1", "3", "2"]), (.waiting, ["2", "1", "3"]),
        (.topic, ["3", "1", "2"]),
    ])
    func sortsAsItIsAsked(order: TopOrder, ids: [String]) {
        let rows = [
            row(1, behind: 1, waiting: 4, dropped: 9), row(2, behind: 2, waiting: 5), row(3, behind: 3, dropped: 4),
        ]
        var state = state(rows, order: order)
        #expect(state.subscriptions.map(\.id) == ids)
        state.isReversed = true
        state.sort()
        #expect(state.subscriptions.map(\.id) == ids.reversed())
    }

    @Test func keepsNoMoreRowsThanAreShown() {
        let rows = (0..<5 * TopState.most).map { row($0, behind: UInt64($0), waiting: 1) }
        let state = state(rows)
        #expect(state.subscriptions.count == TopState.most && state.subscriptionCount == rows.count)
        #expect(state.subscriptions.first?.behind == UInt64(rows.count - 1))
        #expect(state.slowCount == rows.count - Int(TopSubscription.slow))
    }

    @Test func ratesAreThoseSinceThePictureBefore() {
        var state = state([])
        state.beginTopics()
        state.add(topic: topic("t1", 105))
        state.add(topic: topic("t2", 50))
        state.add(topic: topic("$SYS.stats", 50))
        state.endTopics(now: 3_000_000_000)
        #expect(state.topics.map(\.name) == ["t1", "t2"] && state.topicCount == 2)
        #expect(state.topics[0].rateIn == 50 && state.topics[0].rateOut == 100 && state.topics[1].rateIn == 0)
        // A new topic has no history.
        state.beginTopics()
        state.add(topic: topic("t1", 3, epoch: "2"))
        state.endTopics(now: 4_000_000_000)
        #expect(state.topics[0].rateIn == 0)
    }

    @Test func showsWhoIsSlowOnAnyScreen() throws {
        var state = state([row(1), row(2, behind: 90_000, waiting: 20, dropped: 1234)])
        func take(_ stats: String, at second: UInt64) throws {
            state.take(stats: try #require(JSON(stats)), now: second * 1_000_000_000)
        }
        try take("{\"published_per_s\":300,\"delivered_per_s\":1,\"dropped_per_s\":2,\"memory\":1024}", at: 1)
        for (width, height) in [(160, 40), (100, 24), (80, 24), (60, 12), (40, 8), (20, 4), (3, 2), (1, 1)] {
            let lines = TopView.render(state, width: width, height: height)
            #expect(lines.count == height)
            for line in lines { #expect(View.columns(line.text) <= width, "\(line.text)") }
        }
        let text = TopView.render(state, width: 160, height: 20).map(\.text)
        #expect(text[0].hasSuffix("1 of 2 slow "))
        #expect(text.contains { $0.contains("published 300/s") && $0.contains("memory 1.0 KiB") })
        let slow = text.first { $0.contains("no credit") } ?? ""
        #expect(slow.contains("1,234") && slow.contains("1 min 30 s") && slow.contains("██████████"))
        #expect(text.firstIndex { $0.contains("no credit") }! < text.firstIndex { $0.contains("keeping up") }!)
        #expect(TopView.render(state, width: 0, height: 5).isEmpty)
        // Lost publishes.
        #expect(!text.contains { $0.contains("lost") })
        try take(
            "{\"published_per_s\":300,\"lost\":1591,\"lost_per_s\":3,\"lost_to_memory\":1591,"
                + "\"memory\":2048,\"memory_limit\":2048}", at: 2)
        var lines = TopView.render(state, width: 160, height: 20)
        #expect(lines.first { $0.text.contains("lost 1,591") }?.style == .warning)
        let words = "publishes lost: memory (2.0 KiB of 2.0 KiB); 3.0/s"
        #expect(lines.first { $0.text.contains(words) }?.style == .warning)
        #expect(lines.contains { $0.text.contains("memory 2.0 KiB of 2.0 KiB") } && lines.count == 20)
        // The line is shown for a minute.
        try take("{\"lost\":1591,\"lost_to_memory\":1591}", at: 60)
        lines = TopView.render(state, width: 160, height: 20)
        #expect(lines.contains { $0.text.contains(words) })
        try take("{\"lost\":1591,\"lost_to_memory\":1591}", at: 63)
        lines = TopView.render(state, width: 160, height: 20)
        #expect(!lines.contains { $0.text.contains("publishes lost") })
    }

    @Test func whatNeedsALookComesFirst() {
        var state = state([])
        var topics = [topic("idle", 5), topic("busy", 900), topic("losing", 5), topic("blocked", 1)]
        (topics[3].blocked, topics[3].bytes) = (1, 3 << 20)
        for lost in [3, 7] as [UInt64] {
            topics[2].lost = lost
            state.beginTopics()
            for topic in topics { state.add(topic: topic) }
            state.endTopics(now: 2_000_000_000 * lost)
        }
        #expect(state.topics.map(\.name) == ["blocked", "losing", "busy", "idle"])
        let lines = TopView.render(state, width: 160, height: 30)
        #expect(lines.first { $0.text.contains("blocked") && $0.text.contains("3.0 MiB") }?.style == .warning)
    }

    /// A subscription that requests, but too little, is not shown as one that requested nothing.
    @Test func whoAsksTooLittleIsToldSo() throws {
        func row(_ requested: Int, _ delivered: Int, asked: Int) throws -> TopSubscription {
            TopSubscription(
                try #require(
                    JSON(
                        "{\"id\":1,\"topic\":\"t\",\"requested\":\(requested),\"outstanding\":0,"
                            + "\"delivered\":\(delivered),"
                            + "\"waiting\":20,\"dropped\":\(delivered * 9),\"behind_ms\":9000,\"waits_for\":\"credit\","
                            + "\"asked_ms\":\(asked)}")))
        }
        var state = state([try row(10, 10, asked: 200)])
        #expect(state.subscriptions[0].words == "asks too little")
        state.beginSubscriptions()
        state.add(subscription: try row(30, 30, asked: 100))
        state.endSubscriptions(now: 3_000_000_000)
        #expect(state.subscriptions[0].words == "asks 10 of 100/s")
        state.beginSubscriptions()
        state.add(subscription: try row(30, 30, asked: 9100))
        state.endSubscriptions(now: 4_000_000_000)
        #expect(state.subscriptions[0].words == "no credit")
    }

    @Test func namesAreCutInTheMiddleAndHideNothing() {
        #expect(View.clipName("orders.europe.north.oslo", 11) == "order….oslo")
        #expect(View.clipName("short", 5) == "short" && View.clipName("四四四四四", 7).hasSuffix("四"))
        for width in 1..<30 { #expect(View.columns(View.clipName("orders.europe.四四.oslo", width)) <= width) }
        #expect(
            SafeText.name("a\u{202e}b\u{200b}c\u{ad}d\u{a0}e\u{61c}é")
                == "a\\u{202e}b\\u{200b}c\\u{ad}d\\u{a0}e\\u{61c}é")
        #expect(SafeText.name("\u{e0041}\u{3164}\u{1b}") == "\\u{e0041}\\u{3164}\\x1b")
    }
}
