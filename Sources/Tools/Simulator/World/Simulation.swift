// Simulation: one run. First comes a phase with all drawn features and with faults; then faults stop and everything
// owed is delivered; finally all clients leave and nothing may remain.

import Core

/// The result of a run.
public struct Outcome: Sendable {
    public let seed: UInt64
    /// The drawn features, for human readers.
    public let plan: String
    /// The rule that was broken, as a sentence; nil if none was.
    public let fault: String?
    /// How many acts of clients and turns of shards had been done when the run ended.
    public let step: Int
    /// The hash of everything that happened.
    public let hash: UInt64
    /// The numbers of messages published, and received by subscribers.
    public let published: Int
    public let received: Int
    /// How many times sessions were resumed on a new socket.
    public let resumed: Int
    /// The most bytes that the engine had allocated; 0 if they are not counted.
    public let mostHeap: Int

    /// The command that repeats the run.
    public var command: String { "forebay-sim --seed \(seed)" }
}

public final class Simulation {
    private let seed: UInt64
    private let plan: Plan
    private let chance: Chance
    private let trace: Trace
    private let referee = Referee()
    private let journal: Journal
    private let broker: Broker
    private let examiner: Examiner
    private let workload: Workload
    private let rooms: RoomCheck
    private let heap: HeapCheck
    private let restarts: Restarts
    private var step = 0

    /// Runs a seed to its end, or until a rule is broken.
    /// - Parameters:
    ///   - permitted: the features that may be drawn. With fewer features, the same seed gives a different run.
    ///   - required: rarely drawn features that this run must have.
    ///   - print: receives a line for each event.
    public static func run(
        seed: UInt64, permitted: Set<Feature> = Feature.usual, required: Set<Feature> = [],
        print: ((String) -> Void)? = nil
    ) -> Outcome {
        Heap.watch { Simulation(seed, permitted, required, print).run() }
    }

    private init(
        _ seed: UInt64, _ permitted: Set<Feature>, _ required: Set<Feature>, _ print: ((String) -> Void)?
    ) {
        self.seed = seed
        chance = Chance(seed: seed)
        plan = Plan(chance, permitted: permitted, required: required, apart: Chance(seed: ~seed))
        trace = Trace(print: print)
        print?(plan.description)
        journal = Journal(referee, refusals: publishRefusals + (plan.has(.storeFailures) ? storeRefusals : []))
        broker = Broker(plan, chance, trace)
        let examiner = Examiner(broker, plan, journal, referee)
        self.examiner = examiner
        rooms = RoomCheck(examiner, plan, journal, referee)
        workload = Workload(plan, chance, broker, journal, examiner, referee, trace)
        restarts = Restarts(workload)
        let heap = HeapCheck(broker, plan, referee)
        self.heap = heap
        broker.examine = { [unowned examiner] in
            heap.run()
            examiner.examine($0, isBatch: $1)
        }
        broker.handedOver = { wire in wire.claim?.session.arrived(wire, wire.claim!) }
    }

    private func run() -> Outcome {
        trouble()
        let phases = [quiesce, compareLists, feed, compareLists, finish, leave, vanish]
        for phase in phases where referee.fault == nil { phase() }
        return Outcome(
            seed: seed, plan: plan.description, fault: referee.fault, step: step, hash: trace.hash,
            published: journal.messages.count { $0.place != nil },
            received: received,
            resumed: workload.clients.reduce(0) { $0 + ($1.session?.resumptions ?? 0) }, mostHeap: heap.most)
    }

    private var received: Int { workload.subscribers.reduce(0) { $0 + $1.received } }

    /// Lets clients act, shards take turns and time pass, in any order.
    private func trouble() {
        while step < plan.steps, referee.fault == nil {
            step += 1
            if step % 8 == 0 { examiner.examineMemory() }
            if plan.has(.crashes) { restarts.maybe(step) }
            switch chance.below(10) {
            case 0...3: workload.act()
            case 4...6:
                let shard = chance.below(plan.shards)
                if shard == plan.slowShard, chance.below(20) > 0 { continue }
                broker.turn(shard, isPartial: chance.below(3) > 0)
            case 7...8: workload.read()
            default:
                let leap = plan.has(.leaps) && chance.isOne(in: 4)
                broker.advance(leap ? UInt64(chance.below(2000)) * 1_000_000 : UInt64(chance.below(500_000)))
            }
        }
    }

    /// Lets all clients read everything and shards take turns until there is nothing left to do.
    private func rest() {
        for _ in 0..<30_000 where referee.fault == nil {
            step += 1
            examiner.examineMemory()
            for shard in 0..<plan.shards { broker.turn(shard, isPartial: false) }
            for client in workload.clients where !client.isOver { client.read(.max) }
            if broker.isAtRest, !workload.clients.contains(where: { !$0.isOver && $0.wire.arrived > 0 }) {
                return rooms.run()
            }
        }
        referee.fail("the broker and its clients do not become idle")
    }

    private func pass(seconds: Double) {
        for _ in 0..<Int(seconds * 4) where referee.fault == nil {
            broker.advance(Limits.second / 4)
            rest()
        }
    }

    private func quiesce() {
        // A store that has failed takes nothing until the broker is restarted.
        if broker.store.hasFailed { restarts.crash() }
        for client in workload.clients {
            client.wire.isStalled = false
            client.wire.capacity = .max
            client.calm()
        }
        rest()
        quiesceSessions()
        guard referee.fault == nil else { return }
        // A message that was not appended before its publisher left must not be appended later.
        for ledger in workload.channels where ledger.isCancelled || ledger.client.isOver {
            ledger.sent.forEach { journal.withdrawn($0) }
        }
        for case let ledger as AcknowledgedLedger in workload.singles where ledger.isCancelled || ledger.client.isOver {
            journal.withdrawn(ledger.number)
        }
        journal.withdrawFired()
    }

    /// Lets all clients that can resume do so, except those that were refused and are gone, whose sessions last until
    /// they expire.
    private func quiesceSessions() {
        guard plan.has(.resume), referee.fault == nil else { return }
        broker.reportCuts()
        rest()
        for _ in 0..<10 where workload.isAnyoneAway && referee.fault == nil {
            workload.bringBack()
            rest()
        }
        guard referee.fault == nil else { return }
        referee.expect(!workload.isAnyoneAway, "a client reconnects repeatedly, but has no connection")
        guard examiner.hasDetached else { return }
        pass(seconds: Double(plan.limits.resumeTime / Limits.second) + 1)
        referee.expect(
            !examiner.hasDetached, "a session exists for longer than its resume time")
    }

    /// Checks that lists match the ledgers while nothing happens.
    private func compareLists() {
        guard plan.has(.lists), let reader = workload.connect(mayResume: false) else { return }
        reader.calm()
        // Topics learn with a delay what subscriptions were handed, and more may be handed over in the meantime.
        rest()
        var before = -1
        while before != received, referee.fault == nil {
            before = received
            // Two ticks: a message from one shard may end something that another shard counts until its next tick.
            pass(seconds: 0.5)
        }
        // What a peer sends, or a tick ends, is counted in the next tick.
        for _ in 0..<2 where broker.tally.stale > 0 { pass(seconds: 0.25) }
        referee.expect(broker.tally.stale == 0, "a connection is charged for request bytes that it does not hold")
        let lists = ["$SYS.subscriptions", "$SYS.topics", "$SYS.connections"].map { what in
            let list = ListLedger(reader, what, referee)
            reader.list(what, list, n: SubscriberLedger.everything)
            rest()
            referee.expect(list.end == "", "\(list.name) was not sent completely")
            return list
        }
        guard referee.fault == nil else { return }
        let check = ListCheck(
            plan: plan, journal: journal, referee: referee, clients: workload.clients,
            subscribers: workload.subscribers.filter { !$0.isEarlier }, channels: workload.channels,
            singles: workload.singles, reader: reader)
        check.check(subscriptions: lists[0])
        check.check(topics: lists[1])
        check.check(connections: lists[2])
    }

    /// Makes all subscriptions request everything. Parked publishes find room or fail; credit agrees on both sides.
    private func feed() {
        if plan.policies.contains("block"), plan.limits.blockLimit < 3 * Limits.second {
            let full = rooms.full()
            pass(seconds: 3)
            rooms.expectGone(full)
        }
        for ledger in workload.subscribers where isUsable(ledger) {
            ledger.client.request(SubscriberLedger.everything, ledger)
        }
        for ledger in workload.channels where isUsable(ledger) && !ledger.asksForAll {
            ledger.client.request(SubscriberLedger.everything, ledger)
        }
        for case let ledger as ListLedger in workload.singles where isUsable(ledger) {
            ledger.client.request(SubscriberLedger.everything, ledger)
        }
        rest()
        // Topics that a pattern skips are received two at a time, when others have been quiet for 5 s.
        pass(seconds: plan.limits.matches < 10 ? 60 : 12)
        guard referee.fault == nil else { return }
        for ledger in workload.subscribers where isUsable(ledger) { ledger.checkFed() }
        for ledger in workload.subscribers where isOwed(ledger) && ledger.received == ledger.asked {
            referee.fail(
                "\(ledger.name) had received all requested messages and could not request more, but was not ended")
        }
        for client in workload.clients where !client.isOver && !client.wire.isHalfClosed && client.unsent > 0 {
            referee.fail(
                "\(client.unsent) bytes of connection \(client.wire.name) are waiting for the broker's windows")
        }
        for ledger in workload.singles where isUsable(ledger) { referee.fail("\(ledger.name) was never answered") }
        for ledger in workload.channels where isUsable(ledger) {
            referee.expect(!ledger.isComplete, "\(ledger.name) was completed by the client, but never by the broker")
        }
        for ledger in workload.channels { ledger.checkTopic() }
        for publisher in workload.numbered { publisher.check() }
        checkChannels()
        rooms.expectNothingReserved()
    }

    private func isUsable(_ ledger: StreamLedger) -> Bool { ledger.isOpen && !ledger.client.wire.isHalfClosed }

    /// Whether the subscriber requests nothing more and should get what it requested.
    private func isOwed(_ ledger: SubscriberLedger) -> Bool {
        ledger.isHalfClosed && ledger.isAwaited && !ledger.client.wire.isHalfClosed
    }

    /// Checks that a channel's credit equals what its topic's owner has granted and not yet seen used.
    private func checkChannels() {
        var outstanding: [[UInt64: Int]] = Array(repeating: [:], count: plan.shards)
        for inspection in examiner.inspections {
            for channel in inspection.topics.flatMap(\.channels) {
                outstanding[channel.shard][key(channel.place, channel.generation)] = channel.outstanding
            }
        }
        var granted: [[ConnectionID: [UInt32: Int]]] = Array(repeating: [:], count: plan.shards)
        for (shard, inspection) in examiner.inspections.enumerated() {
            for stream in inspection.streams where stream.isPublisher {
                granted[shard][stream.connection, default: [:]][stream.stream] =
                    outstanding[shard][key(stream.place, stream.generation)]
            }
        }
        for ledger in workload.channels where isUsable(ledger) {
            let home = ledger.client.home
            let owner = granted[home.shard][home.id]?[ledger.stream]
            referee.expect(
                owner == ledger.credit,
                "\(ledger.name) may send \(ledger.credit) messages, but its topic expects \(owner ?? -1)")
            referee.expect(
                ledger.accepted == ledger.sent.count || !ledger.asksForAll,
                "\(ledger.name) sent \(ledger.sent.count) messages, but \(ledger.accepted) were acknowledged")
        }
    }

    private func key(_ place: UInt32, _ generation: UInt32) -> UInt64 { UInt64(generation) << 32 | UInt64(place) }

    /// Lets some publishers complete and then ends the topics; every subscriber must receive the end.
    private func finish() {
        for ledger in workload.channels where isUsable(ledger) && chance.isOne(in: 2) {
            ledger.client.complete(ledger)
        }
        rest()
        for ledger in workload.channels where isUsable(ledger) {
            referee.expect(!ledger.isComplete, "\(ledger.name) was completed by the client, but never by the broker")
        }
        guard chance.below(4) > 0, let client = workload.connect(mayResume: false) else { return }
        for topic in plan.topics {
            let end = chance.pick(TopicCall.allCases)
            if end == .delete { journal.deleted.insert(topic) }
            client.control(end, of: topic, CallLedger(client, end, topic, journal, referee))
        }
        rest()
        for ledger in workload.subscribers where ledger.endsWithTopic && (isUsable(ledger) || isOwed(ledger)) {
            referee.fail("\(ledger.name) was not notified of its topic's end")
        }
        for ledger in workload.channels where isUsable(ledger) {
            referee.fail("\(ledger.name) was not notified of its topic's end")
        }
    }

    /// Lets all clients leave, in different ways.
    private func leave() {
        for client in workload.clients where !client.isOver {
            client.leaves()
            switch chance.below(3) {
            case 0: workload.lose(client)
            case 1: client.wire.isHalfClosed = true
            default:
                for ledger in workload.subscribers where ledger.client === client && isUsable(ledger) {
                    client.cancel(ledger)
                }
                for ledger in workload.channels where ledger.client === client && isUsable(ledger) {
                    client.cancel(ledger)
                }
                rest()
                client.wire.isHalfClosed = true
            }
        }
        rest()
        // A connection from which the broker did not read for want of memory is read in the next tick.
        if workload.clients.contains(where: { !$0.isOver }) { pass(seconds: 0.25) }
        for client in workload.clients where !client.isOver {
            referee.fail("connection \(client.wire.name) was not closed")
        }
    }

    /// Checks that topics without clients are removed in time, and that nothing remains.
    private func vanish() {
        pass(seconds: 22 + (plan.has(.resume) ? Double(plan.limits.resumeTime / Limits.second) : 0))
        guard referee.fault == nil else { return }
        for (index, shard) in broker.shards.enumerated() {
            let left = shard.inspector.leftovers()
            referee.expect(
                left.isEmpty, "shard \(index) still has \(left.joined(separator: ", ")) after all clients have left")
        }
        deleteKeptTopics()
        referee.expect(
            broker.quotas.isAtRest, "connections, subscriptions or topics are still counted after all clients have left"
        )
        let most = broker.shards.reduce(0) { $0 + $1.inspector.standingMemory }
        referee.expect(
            broker.memory.used <= most,
            "\(broker.memory.used) bytes are in use after all clients have left; the limit is \(most)"
        )
    }
    /// Deletes the topics that the store keeps, and checks that they are gone.
    private func deleteKeptTopics() {
        for shard in broker.shards {
            for name in shard.inspector.keptTopics() {
                guard let request = try? ControlRequest(.delete, topic: name) else { continue }
                shard.answer(.control(request), job: 0, now: broker.now)
            }
        }
        pass(seconds: 1)
        for (index, shard) in broker.shards.enumerated() {
            let kept = shard.inspector.keptTopics()
            referee.expect(kept.isEmpty, "shard \(index) has not deleted \(kept.joined(separator: ", "))")
        }
    }
}
