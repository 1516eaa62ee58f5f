// Broker: the engine's shards and their driver. Time advances on request; sockets are wires; shards take turns when
// called.

import Bytes
import Core
import Replay

final class Broker {
    /// Ends with a crash; everything else does not.
    private var process: BrokerProcess
    var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    let store: Store
    private let trace: Trace
    private let chance: Chance
    private let plan: Plan
    private let pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    private var opened = 0
    /// Allocated bytes of processes that have ended: connections and streams that refer to each other.
    private(set) var leftover = 0
    /// Examines a shard after each of its inputs, or after several shard messages at once.
    var examine: (_ shard: Int, _ isBatch: Bool) -> Void = { _, _ in }
    /// Called when a socket that began with RESUME has been assigned to a connection.
    var handedOver: (Wire) -> Void = { _ in }
    /// Called with what a shard asks of the upstream.
    var asked: (_ upstream: [UpstreamRequest], _ shard: Int) -> Void = { _, _ in }
    /// While an answer of the store is examined that some messages cannot be read: the topic, and the end of these.
    private(set) var unreadable: (epoch: UInt64, end: UInt64)?

    init(_ plan: Plan, _ chance: Chance, _ trace: Trace) {
        self.plan = plan
        self.chance = chance
        self.trace = trace
        store = Store(plan, chance)
        pieces = .allocate(capacity: chance.pick([2, 5, 64]))
        process = BrokerProcess(plan, chance, now: now)
        watch()
    }

    private func watch() {
        process.watched = shards.indices.map { index in
            WatchedShard(
                shards[index], examine: { [unowned self] in examine(index, $0) },
                fired: { [unowned self] in self.trace.add(.fire, index) })
        }
    }

    deinit { pieces.deallocate() }

    var shards: [Shard] { process.shards }
    var memory: MemoryBudget { process.memory }
    var quotas: Quotas { process.quotas }
    var wires: [[Wire]] { process.wires }

    /// Replaces the process by a new one, which has the topics of the store. The new shards have not been examined.
    /// - Parameter isClean: whether the store has everything; if not, the process has crashed.
    func restart(isClean: Bool) -> [StoredTopic] {
        trace.add(.restart, isClean ? 1 : 0)
        for wire in process.allWires {
            wire.drop()
            wire.isClosed = true
        }
        let topics = store.reopen(isClean: isClean)
        process.end()
        leftover = Heap.live
        process = BrokerProcess(plan, chance, now: now)
        watch()
        for (index, shard) in shards.enumerated() {
            let own = topics.filter { Shard.owner(of: $0.row.name, among: plan.shards) == index }
            if !own.isEmpty { Heap.engine { shard.restore(own, now: now) } }
        }
        return topics
    }

    /// Whether nothing more happens unless a client does something or time passes.
    var isAtRest: Bool {
        shards.indices.allSatisfy {
            process.inboxes[$0].isEmpty && store.isAtRest($0) && shards[$0].effects.store.isEmpty
                && process.arrivals[$0].isEmpty && shards[$0].effects.flush.isEmpty
                && !wires[$0].contains { $0.isReady }
                && (shards[$0].deadline ?? .max) > now.monotonic && !shards[$0].hasWork
        }
    }

    /// Whether the store lacks messages or ends, perhaps because it has refused them.
    var awaitsStore: Bool { shards.contains { $0.inspector.awaitsStore } }

    func advance(_ nanoseconds: UInt64) {
        now.monotonic += nanoseconds
        now.wall += Int64(nanoseconds)
        trace.add(.clock, Int(nanoseconds))
    }

    /// The time of day is set forwards or back; the monotonic clock is not affected.
    func setClock(by nanoseconds: Int64) {
        now.wall += nanoseconds
        trace.add(.clock, 0, Int(nanoseconds), "set")
    }

    /// Connects a client.
    func open(on shard: Int, _ wireProtocol: WireProtocol = .rsocket) -> Wire? {
        opened += 1
        let peer = "127.0.0.1:\(1000 + opened)"
        // The engine may reuse the place of a connection that it has just closed.
        carryOut(shard)
        let place = shards[shard]
        guard let id = Heap.engine({ place.open(peer: peer, wireProtocol: wireProtocol, now: now) }) else { return nil }
        let wire = Wire(shard: shard, id: id, isHTTP2: wireProtocol == .http)
        process.wires[shard].append(wire)
        process.wiresByID[shard][id] = wire
        trace.add(.open, shard, Int(id.index))
        return wire
    }

    func wire(_ id: ConnectionID, on shard: Int) -> Wire? { process.wiresByID[shard][id] }

    /// All memory referenced by shards and by messages between them.
    var tally: MemoryTally {
        var tally = MemoryTally()
        for shard in shards { shard.inspector.add(to: &tally) }
        store.add(to: &tally)
        for case .messages(let batch) in process.inboxes.joined() {
            for messages in batch { messages.add(to: &tally) }
        }
        return tally
    }

    /// Lets the broker notice all wires whose client end is gone.
    func reportCuts() {
        for wire in wires.joined() { wire.isMute = false }
    }

    /// Makes the client disappear without closing the connection.
    func reset(_ wire: Wire) {
        guard !wire.isClosed else { return }
        trace.add(.lost, wire.shard, Int(wire.id.index))
        wire.drop()
        // The shard that receives the wire will find out.
        if wire.isUnderWay { return }
        remove(wire)
        let shard = shards[wire.shard]
        Heap.engine { shard.lost(wire.id, reason: "reset", now: now) }
        examine(wire.shard, false)
    }

    /// Sends what the upstream reports to a shard.
    func report(_ reports: [UpstreamReport], to shard: Int) { process.inboxes[shard].append(.upstream(reports)) }

    // Turns

    /// Runs one turn of a shard: everything that is ready, or with `isPartial` some of it.
    func turn(_ index: Int, isPartial: Bool) {
        trace.add(.turn, index, isPartial ? 1 : 0)
        Turn(broker: self, index: index, isPartial: isPartial).turn()
    }

    private struct Turn: TurnDriver {
        let broker: Broker
        let index: Int
        let isPartial: Bool

        var engine: WatchedShard { broker.process.watched[index] }
        var now: Instant { broker.now }

        func readSockets() { broker.serve(index, isPartial) }
        func carryOut() { broker.carryOut(index) }
        func post(_ batch: [ShardMessage], to shard: Int) { broker.process.inboxes[shard].append(.messages(batch)) }

        func readInbox() {
            broker.receiveFromStore(index, isPartial)
            guard !isPartial || !broker.plan.has(.deferredMessages) || broker.chance.isOne(in: 2) else { return }
            let count = broker.process.inboxes[index].count
            broker.takeMessages(index, most: isPartial ? 1 + broker.chance.below(count) : .max)
        }

        func adoptSockets() { broker.takeSockets(index) }

        /// Writes once to each connection with output.
        func writeOutput() {
            write(takeFlushes(), broker.pieces) { id, pieces, offered in
                broker.process.wiresByID[index][id].map { broker.write(pieces, offered, to: $0, isPartial) }
            }
        }
    }

    private func serve(_ index: Int, _ isPartial: Bool) {
        for wire in wires[index] where wire.isReady && !(isPartial && chance.isOne(in: 2)) { serve(wire, isPartial) }
    }

    private func serve(_ wire: Wire, _ isPartial: Bool) {
        let shard = shards[wire.shard]
        if wire.isBlocked, wire.room > 0 {
            wire.isBlocked = false
            trace.add(.writable, wire.shard, Int(wire.id.index))
            Heap.engine { shard.writable(wire.id, now: now) }
            examine(wire.shard, false)
        }
        if wire.isBroken { return reset(wire) }
        guard wire.isReadable else { return }
        // The client may have learned on another connection what is in the inbox here, so the inbox is handled first.
        takeMessages(wire.shard, most: .max)
        guard wire.isReadable, !shard.isBehind(wire.id) else { return }
        if wire.unread > 0 {
            let some = isPartial && plan.has(.splits) ? chance.size(upTo: chance.pick([8, 60, 5000])) : .max
            let most = Swift.min(some, shard.readLimit(of: wire.id))
            wire.withUnread(most) { bytes in
                trace.add(.read, wire.shard, bytes.count, "of \(wire.id.index)")
                trace.add(bytes)
                Heap.engine { shard.receive(bytes, on: wire.id, now: now) }
            }
            sendSockets(wire.shard)
        } else {
            wire.isEndTold = true
            trace.add(.end, wire.shard, Int(wire.id.index))
            Heap.engine { shard.receiveEnd(on: wire.id, now: now) }
        }
        examine(wire.shard, false)
    }

    private func takeMessages(_ index: Int, most: Int) {
        let letters = process.inboxes[index].prefix(most)
        guard !letters.isEmpty else { return }
        process.inboxes[index].removeFirst(letters.count)
        for letter in letters {
            switch letter {
            case .messages(let batch): takeMessages(index, batch)
            case .socket(let wire, let handover): process.arrivals[index].append((wire, handover))
            case .upstream(let reports): Heap.engine { shards[index].upstream(reports, now: now) }
            }
        }
    }

    private func takeMessages(_ index: Int, _ batch: [ShardMessage]) {
        trace.add(.messages, index, batch.count)
        if plan.splitsBatches {
            var rest = batch[...]
            while !rest.isEmpty {
                let count = 1 + rest.prefix(rest.count - 1).prefix(while: \.needsNext).count
                Heap.engine { shards[index].receive(Array(rest.prefix(count)), now: now) }
                examine(index, count > 1)
                rest.removeFirst(count)
            }
        } else {
            Heap.engine { shards[index].receive(batch, now: now) }
            examine(index, batch.count > 1)
        }
    }

    private func receiveFromStore(_ index: Int, _ isPartial: Bool) {
        let shard = shards[index]
        while let word = store.next(index, memory, isPartial) {
            switch word {
            case .report(let report):
                trace.add(.store, index, 0, "\(report)")
                Heap.engine { shard.stored([report], now: now) }
            case .refused(let reports, let failure):
                trace.add(.store, index, reports.count, "\(reports)")
                process.health.note(failure, now: now.monotonic)
                Heap.engine { shard.stored(reports, now: now) }
            case .found(let first, let search):
                trace.add(.store, index, Int(first?.value ?? 0), "found")
                Heap.engine { shard.found(first, search, now: now) }
            case .answer(let request, let answer):
                trace.add(.store, index, Int(request.first.value), "\(answer)")
                Heap.engine { shard.answer(request, answer, now: now) }
                if case .unreadable(let end) = answer { unreadable = (request.topic, end.value) }
            }
            examine(index, false)
            unreadable = nil
        }
    }

    // Sockets that move from one connection to another

    private func sendSockets(_ index: Int) {
        for handover in shards[index].effects.handovers {
            guard let wire = process.wiresByID[index][handover.from] else { continue }
            trace.add(.handover, index, handover.shard)
            discard(wire)
            wire.isUnderWay = true
            process.inboxes[handover.shard].append(.socket(wire, handover))
        }
        shards[index].effects.handovers.removeAll()
    }

    private func takeSockets(_ index: Int) {
        let due = process.arrivals[index]
        process.arrivals[index].removeAll()
        for (wire, handover) in due {
            // The engine may have just closed the socket that the arriving one replaces.
            carryOut(index)
            let id = Heap.engine { shards[index].takeOver(handover, now: now) }
            trace.add(.takeOver, index, Int(id.index))
            if let old = process.wiresByID[index][id] { remove(old) }
            wire.move(to: id, on: index)
            process.wires[index].append(wire)
            process.wiresByID[index][id] = wire
            handedOver(wire)
            examine(index, false)
            if wire.isReset { reset(wire) }
        }
    }

    private func carryOut(_ index: Int) {
        for (id, isReading) in shards[index].effects.reading {
            trace.add(.pause, index, isReading ? 0 : 1)
            process.wiresByID[index][id]?.isPaused = !isReading
        }
        for id in shards[index].effects.close {
            trace.add(.close, index, Int(id.index))
            if let wire = process.wiresByID[index][id] { remove(wire) }
        }
        shards[index].effects.reading.removeAll()
        shards[index].effects.close.removeAll()
        for record in shards[index].effects.log {
            trace.add(.log, index, 0, "\(record.message) \(record.fields.map { "\($0.key)=\($0.value)" })")
        }
        shards[index].effects.log.removeAll()
        shards[index].effects.answers.removeAll()
        store.take(shards[index].effects.store, from: index)
        shards[index].effects.store.removeAll()
        guard !shards[index].effects.upstream.isEmpty else { return }
        asked(shards[index].effects.upstream, index)
        shards[index].effects.upstream.removeAll()
    }

    private func remove(_ wire: Wire) {
        wire.isClosed = true
        discard(wire)
    }

    private func discard(_ wire: Wire) {
        process.wiresByID[wire.shard][wire.id] = nil
        process.wires[wire.shard].removeAll { $0 === wire }
    }

    /// Returns how many bytes the socket accepts.
    private func write(
        _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>, _ offered: Int, to wire: Wire, _ isPartial: Bool
    ) -> Int {
        var taken = Swift.min(offered, wire.room)
        if isPartial, plan.has(.partialWrites), chance.isOne(in: 2) { taken = chance.below(taken + 1) }
        var rest = taken
        trace.add(.write, wire.shard, taken, "of \(offered) to \(wire.id.index)")
        for piece in pieces {
            let part = UnsafeRawBufferPointer(rebasing: piece.prefix(rest))
            trace.add(part)
            wire.write(part)
            rest -= part.count
        }
        wire.isBlocked = taken < offered
        return taken
    }
}
