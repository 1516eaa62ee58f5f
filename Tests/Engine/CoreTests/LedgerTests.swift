// Random clients over several engines: subscribers of every policy, publishers of all three kinds, ends and deletions,
// stalled sockets, lost connections, memory shortages. Whatever they do, the ledgers balance.

import Bytes
import ForebayWire
import Glibc
import Replay
import RSocket
import Testing

@testable import Core

/// Nobody receives more than requested; each sees messages in order and at most once, and missing ones are reported;
/// credit is neither lost nor invented; and when all have left, nothing remains of them.
@Suite struct LedgerTests {
    /// `LEDGER_SEEDS=20000` tries 20,000 seeds, `LEDGER_SEED=121` only seed 121.
    private static let seeds = number("LEDGER_SEED").map { $0..<$0 + 1 } ?? 0..<(number("LEDGER_SEEDS") ?? 150)

    private static func number(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }

    @Test(arguments: seeds)
    func ledgersBalance(_ seed: Int) { Scenario(seed: seed).play() }

    /// Like `ledgersBalance`, with shards that take their turns at random, so that messages between them cross in every
    /// possible way.
    @Test(arguments: seeds)
    func ledgersBalanceHoweverMailCrosses(_ seed: Int) { Scenario(seed: seed, crossing: true).play() }

    /// Like `ledgersBalance`, with limits that change at run time; if messages cross, not on all shards at once.
    @Test(arguments: seeds)
    func ledgersBalanceAcrossReloads(_ seed: Int) {
        Scenario(seed: seed, crossing: seed % 2 == 1, reloading: true).play()
    }
}

private final class Scenario {
    private var random: LedgerRandom
    private let broker: TestBroker
    private let limits: Limits
    private let books: Books
    private let shards: Int
    private let isCrossing: Bool
    private let isReloading: Bool
    private var peers: [LedgerPeer] = []
    private var subscribers: [SubscriberAccount] = []
    private var publishers: [PublisherAccount] = []
    private var written = 0

    init(seed: Int, crossing: Bool = false, reloading: Bool = false) {
        var random = LedgerRandom(state: UInt64(seed))
        var limits = Limits()
        limits.retain = random.pick([1, 3, 20, 1000])
        limits.retainBytes = random.pick([2000, 20_000, 16 << 20])
        limits.memory = random.pick([60_000, 1 << 20, 1 << 30])
        limits.output = random.pick([200, 2000, 256 << 10])
        limits.beyondWindows = random.pick([500, 50_000, 4 << 20])
        limits.grant = random.pick([1, 5, 64])
        limits.forwarded = random.pick([1000, 1 << 20])
        limits.parkedCount = random.pick([4, 4096])
        limits.topicIdle = 20 * Limits.second
        limits.blockLimit = random.pick([2, 30]) * Limits.second
        shards = 1 + random.next(3)
        broker = TestBroker(shards: shards, limits: limits)
        books = Books(seed: seed)
        isCrossing = crossing
        isReloading = reloading
        if crossing { broker.chaos = LedgerRandom(state: UInt64(seed) &* 77 &+ 5) }
        self.random = random
        self.limits = limits
    }

    func play() {
        for _ in 0..<250 {
            act()
            for peer in peers { peer.read() }
            if !isCrossing { checkEngines() }
        }
        quiesce()
        checkEngines()
        finish()
        leave()
    }

    // What clients do

    private func act() {
        if isReloading, random.next(15) == 0 { reload() }
        switch random.next(20) {
        case 0...1 where subscribers.count < 15: subscribe()
        case 2...3: if let account = any(subscribers) { request(account) }
        case 4 where !peers.isEmpty: stall(random.pick(peers))
        case 5: if let account = any(subscribers) { cancel(account) }
        case 6: if let account = any(publishers) { cancel(account) }
        case 7 where peers.count > 5: peers.remove(at: random.next(peers.count)).client.disconnect()
        case 8: broker.advance(seconds: random.pick([0.25, 2]))
        case 9 where random.next(5) == 0: control(random.pick(["delete", "delete", "complete", "fail"]))
        case 10...11: publishOne()
        case 12: fireAndForget()
        case 13 where publishers.count { !$0.isOver && $0.isChannel } < 5: openChannel()
        case 14: if let account = any(publishers), account.isChannel { complete(account) }
        default: if let account = any(publishers), account.isChannel { sendItems(account) }
        }
    }

    private func any<A: Account>(_ accounts: [A]) -> A? {
        let open = accounts.filter { !$0.isOver }
        return open.isEmpty ? nil : open[random.next(open.count)]
    }

    private func peer(speaksRSocket: Bool = false) -> LedgerPeer {
        let open = peers.filter { !$0.client.isClosed && !(speaksRSocket && $0 is LedgerGRPCPeer) }
        if open.count > 3, random.next(3) > 0 { return open[random.next(open.count)] }
        let peer: LedgerPeer
        if !speaksRSocket, random.next(2) == 0 {
            peer = LedgerGRPCPeer(
                TestGRPC(
                    broker, random.next(shards), window: UInt32(random.pick([1, 7, 100, 1024, 5000, 65_535, 1 << 24])),
                    connectionWindow: UInt32(random.pick([65_535, 1 << 24]))))
        } else {
            peer = LedgerPeer(broker.connect(random.next(shards)))
        }
        peers.append(peer)
        return peer
    }

    private var topic: String { get { random.pick(["a", "b"]) } }

    private func text() -> String {
        written += 1
        let padding = random.pick([0, 10, 300, 70_000, 0, 10]) % limits.retainBytes
        return "m\(written)." + String(repeating: "x", count: padding)
    }

    private func subscribe() {
        let peer = peer()
        let policy = random.pick(["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block", "block"])
        let buffer = random.pick([1, 2, 7, 50])
        let start = random.pick(["", "&replay=1", "&replay=all", "&from=3", "&from=900"])
        let n = 1 + random.next(9)
        let name = topic
        let route = "\(name)?meta=on&overflow=\(policy)&buffer=\(buffer)\(start)"
        let account = SubscriberAccount(books, peer, peer.freshStream(), route)
        account.requested = n
        subscribers.append(account)
        peer.subscribe(account, topic: name, policy: policy, buffer: buffer, start: start, n: n)
    }

    private func request(_ account: SubscriberAccount) {
        let n = random.pick([1, 3, 20, 20, 0x7FFF_FFFF])
        account.requested += n
        if account.requested >= 0x7FFF_FFFF { account.isUnbounded = true }
        account.peer.request(n, account)
    }

    private func stall(_ peer: LedgerPeer) {
        guard !peer.client.isClosed else { return }
        peer.stall(&random)
    }

    private func cancel(_ account: Account) {
        guard random.next(3) == 0 else { return }
        account.isCancelled = true
        account.peer.cancel(account)
    }

    private func publishOne() {
        let peer = peer()
        let route = topic
        let text = text()
        let account = PublisherAccount(books, peer, peer.freshStream(), route, isChannel: false, first: text)
        publishers.append(account)
        peer.publishOne(account, topic: route, text)
    }

    private func openChannel() {
        let peer = peer()
        let route = topic + random.pick(["", "", "", "?complete=true", "?on-loss=fail"])
        let text = text()
        let account = PublisherAccount(books, peer, peer.freshStream(), route, isChannel: true, first: text)
        account.acknowledgementsAsked = peer is LedgerGRPCPeer ? 0x7FFF_FFFF : random.pick([1, 5, 0x7FFF_FFFF])
        account.isComplete = random.next(6) == 0
        publishers.append(account)
        peer.openChannel(account, route: route, text)
    }

    private func sendItems(_ account: PublisherAccount) {
        guard !account.isComplete else { return }
        guard account.credit > 0 else {
            if account.acknowledgementsAsked < 0x7FFF_FFFF, random.next(2) == 0 {
                account.acknowledgementsAsked += 3
                account.peer.request(3, account)
            }
            return
        }
        let texts = (0..<min(account.credit, 1 + random.next(20))).map { _ in text() }
        account.credit -= texts.count
        account.sent += texts
        account.peer.items(texts, account)
    }

    private func complete(_ account: PublisherAccount) {
        guard !account.isComplete, random.next(3) == 0 else { return }
        account.isComplete = true
        account.peer.complete(account)
    }

    private func fireAndForget() {
        let peer = peer(speaksRSocket: true)
        peer.client.fireAndForget(topic, text(), stream: peer.freshStream())
    }

    private func reload() {
        var limits = limits
        limits.retain = random.pick([1, 3, 20, 1000])
        limits.retainBytes = random.pick([2000, 20_000, 16 << 20])
        limits.retainAge = random.pick([0, 0, Limits.second])
        limits.grant = random.pick([1, 5, 64])
        limits.output = random.pick([200, 2000, 256 << 10])
        if random.next(2) == 0, let pattern = try? TopicPattern(parsing: random.pick(["a", "*", ">"])) {
            limits.topicRules = [TopicRule(match: pattern, retain: 2, retainBytes: random.pick([3000, 1 << 20]))]
        }
        for shard in broker.shards where !isCrossing || random.next(2) == 0 {
            shard.adopt(limits, now: broker.now)
        }
        broker.run()
    }

    private func control(_ call: String) {
        let peer = peer(speaksRSocket: true)
        peer.client.publish("$SYS.topic.\(call)?name=\(topic)", "", stream: peer.freshStream())
    }

    // The end

    /// Lets every client read what there is for it, and every shard handle all its messages.
    private func quiesce() {
        broker.chaos = nil
        for peer in peers where !peer.client.isClosed { peer.readAll() }
        broker.runAll()
        for peer in peers { peer.read() }
    }

    /// Lets every subscriber request and read everything, and ends the topics.
    private func finish() {
        for account in publishers where !account.isOver && account.isChannel {
            account.acknowledgementsAsked = 0x7FFF_FFFF
            if account.peer is LedgerGRPCPeer { continue }
            account.peer.request(0x7FFF_FFFF, account)
        }
        for account in subscribers where !account.isOver {
            account.isUnbounded = true
            account.peer.request(0x7FFF_FFFF, account)
        }
        // Parked publishes have found room or failed, and completed channels are acknowledged in full.
        broker.advance(seconds: 12)
        for peer in peers { peer.read() }
        for account in publishers where !account.isOver {
            #expect(account.isChannel && !account.isComplete, "\(account.name) was never answered")
        }
        for account in publishers where account.end == "|" && account.isChannel {
            let text = "\(account.name) ended with \(account.accepted) of \(account.sent.count)"
            #expect(account.accepted == account.sent.count || account.acknowledgementsAsked < 0x7FFF_FFFF, "\(text)")
        }
        let control = broker.connect()
        for (stream, topic) in [(1, "a"), (3, "b")] {
            control.publish("$SYS.topic.complete?name=\(topic)", "", stream: UInt32(stream))
        }
        for peer in peers { peer.read() }
        for account in subscribers where !account.isCancelled && !account.peer.client.isClosed {
            #expect(account.end != nil, "\(account.name) saw no end")
            // Messages dropped after the last delivery are reported with the end.
            guard account.end == "|", let last = account.last else { continue }
            let topics = broker.shards.flatMap(\.topics.all)
            guard let topic = topics.first(where: { $0.epoch == account.epoch }) else { continue }
            #expect(last + account.tail == topic.published, "\(account.name) ended at \(last) + \(account.tail)")
        }
        control.disconnect()
    }

    /// Lets all clients leave, and checks that nothing remains of them.
    private func leave() {
        for peer in peers { peer.client.disconnect() }
        broker.advance(seconds: 25)
        for shard in broker.shards {
            #expect(shard.subscriptions.count == 0 && shard.connections.count == 0 && shard.streams.count == 0)
            #expect(shard.views.count == 0 && shard.parts.requests.intake.channels.isEmpty)
            #expect(shard.topics.all.allSatisfy { TopicName.isSystem($0.name) })
            #expect(shard.rateLimiter.count == 0 && shard.effects.messages.allSatisfy(\.isEmpty))
        }
        #expect(broker.quotas.isUnused, "seed \(books.seed)")
        let rest = broker.shards.flatMap(\.topics.all).reduce(0) { $0 + $1.log.memory }
        let spare = shards * BlockPool.spares * Block.size
        #expect(broker.memory.used <= rest + spare, "seed \(books.seed): \(broker.memory.used) bytes are left")
    }

    // What engines must agree on while no messages between them are in flight

    private func checkEngines() {
        for shard in broker.shards {
            for place in 0..<shard.connections.bound { if let it = shard.connections.at(place) { check(it) } }
            for topic in shard.topics.all { check(topic, on: shard) }
            for channel in shard.parts.requests.intake.channels.values {
                #expect(channel.topic.publishers.current.channels[channel.key] === channel)
            }
            for view in shard.views.attached {
                let owner = broker.shards[view.owner].topics[epoch: view.epoch]
                #expect(owner?.views.links.contains { $0.shard == shard.index } == true && !view.isEmpty)
            }
        }
        for account in subscribers where account.lost > 0 || account.end?.contains("overflow: bytes") == true {
            let isBlock = account.route.contains("=block")
            guard let topic = broker.shards.lazy.compactMap({ $0.topics[epoch: account.epoch] }).first,
                isBlock || account.route.contains("=fail")
            else { continue }
            // Only the byte limit evicts these messages, and with `block` only messages older than the subscription.
            let mayBeEvicted = !isBlock || account.route.contains("replay=") || account.route.contains("from=")
            #expect(mayBeEvicted && topic.window.lost > SequenceNumber(1), "\(account.name) lost \(account.lost)")
        }
        for account in publishers where account.isChannel && !account.isOver && !account.isComplete {
            // A client that does not read may not know yet of credit, or that the channel is gone.
            let isReading = account.peer.isReading
            let channel = channel(of: account)
            guard isReading || channel != nil else { continue }
            let outstanding = channel?.outstanding ?? 0
            #expect(
                isReading ? account.credit == outstanding : account.credit <= outstanding,
                "\(account.name): the client has \(account.credit), the topic \(outstanding)")
        }
    }

    /// The channel's state at the topic's owner.
    private func channel(of account: PublisherAccount) -> Channel? {
        let client = account.peer.client
        let shard = broker.shards[client.shard]
        let connection = shard.find(client.id)
        let bound = connection?.http?.exchange(of: account.stream)?.bound
        let known = connection?.rsocket.handle(of: account.stream).flatMap { shard.streams.at(Int($0)) }
        guard let stream = bound ?? known else { return nil }
        return broker.shards.lazy.flatMap(\.topics.all).compactMap {
            $0.publishers.current.channels[shard.streams.key(stream)]
        }
        .first
    }

    private func check(_ connection: Connection) {
        let waiting = connection.streams.filter { ($0 as? Publisher)?.isPlaced == false }
        #expect(connection.input.forwarded == 0 && connection.input.parkedCount == waiting.count)
        #expect(connection.input.parkedBytes == waiting.reduce(0) { $0 + ($1 as! Publisher).parkedBytes })
        #expect(connection.input.isReading == !connection.input.isHeld || !connection.isOpen)
        if let http = connection.http, connection.isOpen { check(http, connection) }
    }

    private func check(_ http: HTTPConnection, _ connection: Connection) {
        #expect(http.held.bytes == http.exchanges.all.reduce(0) { $0 + $1.request.deframer.heldBytes })
        #expect(http.bodies.memory == http.exchanges.all.reduce(0) { $0 + $1.body.memory })
        #expect(http.bodies.bytes == http.exchanges.all.reduce(0) { $0 + $1.body.count })
        #expect(http.bodies.beyond == http.exchanges.all.reduce(0) { $0 + $1.beyond })
        #expect(http.bodies.ready >= 0)
        #expect(http.exchanges.count <= http.session?.pointee.openStreams ?? 0)
        #expect(connection.streams.allSatisfy { $0.exchange?.bound === $0 })
    }

    private func check(_ topic: Topic, on shard: Shard) {
        #expect(topic.publishers.room.reserved == topic.publishers.current.channels.all.reduce(0) { $0 + $1.reserved })
        for channel in topic.publishers.current.channels.all {
            #expect(topic.publishers.current.channels[channel.key] === channel)
            #expect(
                channel.reserved >= 0 && channel.reserved <= channel.outstanding + (channel.first == .awaited ? 1 : 0))
            #expect(channel.isStarved || channel.outstanding > 0 || channel.isParked)
        }
        #expect(
            topic.publishers.current.credits.line.starvedCount
                == topic.publishers.current.channels.all.count { $0.outstanding == 0 && !$0.isParked })
        #expect(topic.views.links.allSatisfy { broker.shards[$0.shard].views[epoch: topic.epoch] != nil })
        #expect(
            !topic.isDirty && (topic.publishers.room.floor != nil || topic.log.bytes <= topic.window.retention.bytes))
    }
}
