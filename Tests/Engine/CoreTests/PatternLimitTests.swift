// What subscriptions to patterns may take of the broker, and what happens while one begins.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct PatternLimitTests {
    /// A client that does not read cannot fill the memory with positions. Others keep theirs.
    @Test(arguments: [1, 2])
    func positionsHaveAShareOfMemory(_ shards: Int) {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(shards: shards, limits: limits)
        for shard in broker.shards { shard.parts.requests.patterns.table.part = 8 }
        let (greedy, modest, publisher) = (broker.connect(), broker.connect(), broker.connect(shards - 1))
        greedy.subscribe("g.>", n: 1)
        modest.subscribe("m.>", n: 10)
        publisher.fireAndForget("m.first", "x")
        // While they take all they may, others still get new ones.
        let whole = (1 << 20) / 8 / PatternSubscribing.cursorMemory / shards
        for number in 0..<whole - 1 { publisher.fireAndForget("g.\(number)", "x") }
        #expect(broker.shards[0].parts.requests.patterns.table.cursors == whole)
        publisher.fireAndForget("m.extra", "x")
        #expect(modest.received() == ["1:[1]m.first:x", "1:[1]m.extra:x"])
        for number in whole..<whole + 10 { publisher.fireAndForget("g.\(number)", "x") }
        let received = greedy.received()
        let waiting = "limit: The subscription to 'g.>' needs positions in "
        #expect(received.count == 2 && received.last?.contains(waiting) == true, "\(received)")
        #expect(broker.shards[0].counters.limits[.patternPositions] == 1)
        let most = (1 << 20) / 8
        let used = broker.shards.map { $0.parts.requests.patterns.table.cursors * PatternSubscribing.cursorMemory }
        #expect(used.reduce(0, +) <= most)
        publisher.fireAndForget("m.second", "x")
        #expect(modest.received() == ["1:[1]m.second:x"])
    }

    /// Many subscriptions of a client that does not read do not cost another client its own.
    @Test func theConnectionThatNeedsMostMakesRoom() {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(limits: limits)
        let (greedy, modest, publisher) = (broker.connect(), broker.connect(), broker.connect())
        let table = broker.shards[0].parts.requests.patterns.table
        (table.needs.least, table.part) = (64, 8)
        let streams = stride(from: UInt32(1), to: 17, by: 2)
        for stream in streams { greedy.subscribe("g.*", n: 1, stream: stream) }
        modest.subscribe("m.*", n: 1)
        let whole = (1 << 20) / 8 / PatternSubscribing.cursorMemory
        for number in 0..<whole / 8 { publisher.fireAndForget("g.\(number)", "x") }
        for number in 0..<whole / 7 { publisher.fireAndForget("m.\(number)", "x") }
        modest.requestN(1 << 20)
        #expect(modest.received() == (0..<whole / 7).map { "1:[1]m.\($0):x" })
        let refusals = greedy.received().filter { $0.contains(":! ") }
        #expect(
            refusals.count == 1 && refusals[0].contains("limit: The subscription to 'g.*' needs positions in ")
        )
        #expect(table.cursors <= whole)
        greedy.disconnect()
        broker.run()
        #expect(table.leaving == 0 && table.needs.isEmpty)
    }

    /// When a connection ends, so do its subscriptions, but their positions are removed in later turns.
    @Test func positionsOfAConnectionThatEndedAreRemovedInSlices() throws {
        let broker = TestBroker()
        let (shard, client) = (broker.shards[0], broker.connect())
        let table = shard.parts.requests.patterns.table
        let count = PatternSubscribing.slice / 2
        for subscription in 0..<40 { client.subscribe("t.*", stream: UInt32(2 * subscription + 1)) }
        publish(broker, "x", to: (0..<count).map { "t.\($0)" })
        client.isFollowedByTurns = false
        shard.beginTurn()
        client.disconnect()
        #expect(shard.subscriptions.count == 0 && table.leaving == 40 * count)
        while shard.hasWork {
            let before = table.cursors
            shard.beginTurn()
            shard.goOn(now: broker.now)
            try #require(table.cursors < before)
            #expect(before - table.cursors <= PatternSubscribing.slice)
        }
        #expect(table.cursors == 0 && table.leaving == 0)
    }

    /// Making a topic takes a large part of a connection's quantum.
    @Test func newTopicsAreMadeByQuantum() {
        let broker = TestBroker()
        let (shard, client) = (broker.shards[0], broker.connect())
        client.isFollowedByTurns = false
        let before = shard.topics.count
        shard.beginTurn()
        var buffer = ByteBuffer()
        for number in 0..<100 {
            Array("t.\(number)".utf8).withUnsafeBytes {
                FrameWriter.requestFNF(stream: 1, metadata: $0, data: $0, fragment: 1 << 20, into: &buffer)
            }
        }
        shard.receive(buffer.readable, on: client.id, now: broker.now)
        #expect(shard.isBehind(client.id) && shard.topics.count - before <= Work.quantum / Work.topic)
        broker.runAll()
        #expect(shard.topics.count - before == 100)
    }

    /// Clients that receive everything are not ended, however many topics they receive in a short time.
    @Test(arguments: [1, 2])
    func positionsThatAreUpToDateMakeRoom(_ shards: Int) {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(shards: shards, limits: limits)
        for shard in broker.shards { shard.parts.requests.patterns.table.part = 8 }
        let (stalled, publisher) = (broker.connect(), broker.connect(shards - 1))
        let readers = (0..<2).map { _ in broker.connect() }
        let table = broker.shards[0].parts.requests.patterns.table
        let whole = (1 << 20) / 8 / PatternSubscribing.cursorMemory / shards
        stalled.subscribe("s.*", n: 1)
        for reader in readers { reader.subscribe("r.*", n: 1 << 20) }
        for number in 0..<whole / 4 { publisher.fireAndForget("s.\(number)", "x") }
        for round in 1...2 {
            for number in 0..<whole {
                publisher.fireAndForget("r.\(number)", "x")
                #expect(table.cursors <= whole * 4 / 3 + readers.count)
            }
            for reader in readers {
                let expected = (0..<whole).map { "1:[\(round)]r.\($0):x" }
                #expect(reader.received() == expected)
            }
        }
        stalled.requestN(1 << 20)
        #expect(stalled.received().count == whole / 4)
        for client in readers + [stalled] { client.disconnect() }
        broker.run()
        #expect(table.cursors == 0)
    }

    /// Nor are those that begin with what more topics retain than may have positions. If a position was removed before
    /// the subscription has begun, it does not begin again.
    @Test(arguments: [2, 3], 0..<4)
    func positionsMakeRoomWhileSubscriptionsBegin(_ shards: Int, _ seed: UInt64) {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(shards: shards, limits: limits)
        for shard in broker.shards { shard.parts.requests.patterns.table.part = 8 }
        let (first, second, publisher) = (broker.connect(), broker.connect(), broker.connect(shards - 1))
        let table = broker.shards[0].parts.requests.patterns.table
        let whole = Swift.max(64, (1 << 20) / 8 / PatternSubscribing.cursorMemory / shards)
        // Memory has room for what these retain.
        let topics = 2 * whole
        for shard in broker.shards { shard.parts.requests.followers.mostLinked = 8 }
        for number in 0..<topics { publisher.fireAndForget("r.\(number)", "x") }
        first.subscribe("r.*?replay=all", n: 1 << 20)
        #expect(first.received().count == topics)
        second.isFollowedByTurns = false
        publisher.isFollowedByTurns = false
        broker.chaos = LedgerRandom(state: seed)
        second.subscribe("r.*?replay=all", n: 1 << 20)
        for number in 0..<topics {
            publisher.fireAndForget("r.\(number * 7 % topics)", "y")
            broker.run()
            #expect(table.cursors <= whole * 4 / 3 + 2 * 8 * shards)
        }
        broker.chaos = nil
        broker.run()
        let expected = (0..<topics).flatMap { ["1:[1]r.\($0):x", "1:[2]r.\($0):y"] }
        let received = second.received()
        #expect(received.sorted() == expected.sorted())
        #expect(received.last?.contains(":! ") == false)
        second.cancel()
        broker.run()
        for client in [first, second, publisher] { client.disconnect() }
        broker.run()
        #expect(table.cursors == 0)
    }

    /// A subscription that is refused for another reason does not count its pattern.
    @Test func aRefusedSubscriptionTakesNoPattern() {
        var limits = Limits()
        limits.subscriptions = 1
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.subscribe("t.*", stream: 1)
        client.subscribe("u.*", stream: 3)
        let received = client.received()
        #expect(received.count == 1 && received[0].hasPrefix("3:! "), "\(received)")
        #expect(broker.quotas.patterns.value == 1)
        client.subscribe("t.*", stream: 5)
        #expect(broker.quotas.patterns.value == 1)
        client.cancel(stream: 1)
        #expect(broker.quotas.patterns.value == 0)
    }

    /// Of many topics that get messages at once, some get a view in each turn.
    @Test func viewsAreMadeSomeAtATime() {
        let broker = TestBroker()
        broker.shards[0].parts.requests.followers.links.most = 2
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        subscriber.subscribe("t.*")
        // Of two choices: whether the shard has a turn.
        broker.chaos = LedgerRandom(state: 1)
        publisher.send { buffer in
            for number in 0..<20 {
                let route = Array("t.\(number)".utf8)
                route.withUnsafeBytes {
                    FrameWriter.requestFNF(
                        stream: UInt32(2 * number + 9), metadata: $0, data: $0, fragment: 1 << 20, into: &buffer)
                }
            }
        }
        // Some when they arrived, and some in a turn after that.
        var made = broker.shards[0].views.namedCount
        #expect(made <= 4)
        while broker.shards[0].hasWork {
            broker.run()
            let count = broker.shards[0].views.namedCount
            #expect(count - made <= 2)
            made = count
        }
        broker.chaos = nil
        broker.run()
        #expect(made == 20 && subscriber.received().count == 20)
    }

    /// Subscriptions begin in some topics in each turn, also if there are views of all of them.
    @Test func subscriptionsBeginInSomeTopicsAtATime() {
        let broker = TestBroker()
        let followers = broker.shards[0].parts.requests.followers
        let (first, publisher) = (broker.connect(), broker.connect())
        let others = (0..<6).map { _ in broker.connect() }
        for number in 0..<20 { publisher.fireAndForget("t.\(number)", "x") }
        first.subscribe("t.*?replay=all")
        (followers.links.most, followers.mostLinked) = (2, 2)
        let table = broker.shards[0].parts.requests.patterns.table
        broker.chaos = LedgerRandom(state: 1)
        for client in others {
            client.isFollowedByTurns = false
            client.subscribe("t.*?replay=all")
        }
        var made = table.cursors
        #expect(made <= 24)
        while broker.shards[0].hasWork {
            broker.run()
            #expect(table.cursors - made <= 4)
            made = table.cursors
        }
        broker.chaos = nil
        broker.run()
        #expect(table.cursors == 140)
        for client in others { #expect(client.received().count == 20) }
    }

    /// Searches of subscriptions that were cancelled do not wait.
    @Test(arguments: [1, 2])
    func cancelledSubscriptionsDoNotWaitForTopics(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let followers = broker.shards[shards - 1].parts.requests.followers
        let (first, second, publisher) = (broker.connect(), broker.connect(), broker.connect())
        for number in 0..<200 { publisher.fireAndForget("t.\(number)", "x") }
        func exchange() {
            guard shards > 1 else { return }
            for shard in [0, 1] { broker.turn(shard) }
        }
        (followers.links.most, followers.mostLinked) = (2, 2)
        for client in [first, second] { client.isFollowedByTurns = false }
        first.subscribe("t.*?replay=all")
        exchange()
        for stream in stride(from: UInt32(1), to: 21, by: 2) {
            second.subscribe("t.*?replay=all", stream: stream)
            exchange()
            #expect(followers.links.waitingCount(of: 0) == 1)
            second.cancel(stream: stream)
            exchange()
            #expect(followers.links.waitingCount(of: 0) == 0)
        }
        second.subscribe("t.*?replay=all", stream: 101)
        broker.run()
        #expect(first.received().count == 200 && second.received().count { $0.hasPrefix("101:") } == 200)
        #expect(broker.shards[0].forwarding.bytes == 0)
    }

    /// The shards are asked for the topics of a few subscriptions at a time. Those that end before cost them nothing.
    @Test func shardsAreAskedForAFewSubscriptionsAtATime() {
        let broker = TestBroker(shards: 2)
        let (client, publisher) = (broker.connect(), broker.connect())
        for name in ["t.a", "t.b", "t.c", "t.d"] { publisher.fireAndForget(name, "x") }
        let requests = broker.shards[0].parts.requests.patterns.requests
        requests.most = 2
        client.isFollowedByTurns = false
        for stream in stride(from: UInt32(1), through: 39, by: 2) {
            client.subscribe("t.*?replay=1&buffer=\(stream)", stream: stream)
        }
        #expect(requests.underWay == 3 && requests.waiting.count == 17)
        for stream in stride(from: UInt32(9), through: 37, by: 2) { client.cancel(stream: stream) }
        #expect(requests.underWay == 3 && requests.waiting.count == 2)
        broker.run()
        #expect(requests.underWay == 0 && requests.waiting.isEmpty)
        #expect(client.received().count == 5 * 4)
        #expect(broker.quotas.patterns.value == 1)
    }

    /// A client that requests the messages of many topics at once receives some of them before others are served.
    @Test func turnsAreTakenSomeAtATime() throws {
        let broker = TestBroker()
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        let topics = 2 * PatternDelivery.turns + 50
        for number in 0..<topics { publisher.fireAndForget("t.\(number)", "x") }
        subscriber.subscribe("t.*?replay=1", n: 1)
        let streams = broker.shards[0].parts.tables.streams
        let pattern = try #require((0..<streams.bound).compactMap(streams.at).first { $0.kind == .pattern }?.asPattern)
        subscriber.isFollowedByTurns = false
        subscriber.requestN(1 << 20)
        #expect(pattern.sums.delivered == UInt64(1 + PatternDelivery.turns))
        broker.run()
        #expect(subscriber.received().count == topics)
    }

    /// Clients that subscribe and leave, again and again, leave no more positions behind than they make.
    @Test func positionsOfCancelledSubscriptionsMakeWay() {
        let broker = TestBroker()
        let publisher = broker.connect()
        for number in 0..<1000 { publisher.fireAndForget("t.\(number)", "x") }
        publisher.subscribe("t.*?replay=all", n: 1)
        let followers = broker.shards[0].parts.requests.followers
        (followers.slice, followers.mostLinked) = (2000, 2000)
        let clients = (0..<6).map { _ in broker.connect() }
        clients[0].subscribe("t.*?replay=all", n: 1)
        let table = broker.shards[0].parts.requests.patterns.table
        #expect(table.cursors == 2000)
        for (client, next) in zip(clients, clients.dropFirst()) {
            for client in [client, next] { client.isFollowedByTurns = false }
            // As if each came in a turn of its own, with no time left for what was deferred.
            table.work.spent = 0
            client.disconnect()
            table.work.spent = 0
            next.subscribe("t.*?replay=all", n: 1)
            #expect(table.cursors == 2000)
        }
        broker.run()
        #expect(table.cursors == 2000)
        for client in [clients[5], publisher] { client.disconnect() }
        broker.run()
        #expect(table.cursors == 0)
        // Their views leave the queue at once.
        #expect(broker.shards[0].views.active.isEmpty)
    }

    /// While the owners of topics are still being asked for those that match, topics may deliver messages and end.
    @Test(arguments: 0..<100)
    func aTopicThatEndsBeforeTheBeginningIsReplayedOnce(_ seed: UInt64) {
        let broker = TestBroker(shards: 2, limits: Limits())
        let (publisher, subscriber) = (broker.connect(), broker.connect(1))
        let names = ["t.a", "x.a", "t.b", "x.b", "t.c"]
        for name in names { publisher.fireAndForget(name, "1") }
        for shard in broker.shards { shard.parts.requests.followers.slice = 2 }
        broker.chaos = LedgerRandom(state: seed)
        subscriber.subscribe("t.*?replay=all")
        for name in names {
            publisher.fireAndForget(name, "2")
            publisher.publish("$SYS.topic.complete?name=\(name)", "", stream: 3)
        }
        broker.chaos = nil
        broker.run()
        let received = subscriber.received()
        #expect(Set(received).count == received.count, "\(received)")
    }
}
