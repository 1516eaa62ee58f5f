// Two shards of one broker, driven like the loops: effects are carried out until there are none. Besides the input's
// connections, two others use their own topic, and must not be affected.

import Bytes
import ForebayWire
import RSocket

@testable import Core

final class FuzzBroker {
    private(set) var shards: [Shard] = []
    let limits: Limits
    private let memory: MemoryBudget
    private let quotas = Quotas()
    private(set) var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    private var peers: [[ConnectionID: FuzzPeer]] = [[:], [:]]
    private var inboxes: [[[ShardMessage]]] = [[], []]
    private(set) var logins: [LoginRequest] = []
    /// Whether a user who may end other users' streams was authenticated.
    private var hasOperator = false
    /// Whether no user, the canary included, may publish as much as the canary does.
    private var isPaced = false

    static let limits: Limits = {
        var limits = Limits()
        limits.retain = 20
        limits.retainBytes = 8000
        limits.topicIdle = 2 * Limits.second
        limits.payload = 1000
        limits.metadata = 300
        limits.headers = 2000
        limits.keepaliveData = 50
        limits.reassembly = 3000
        limits.parked = 2000
        limits.parkedCount = 5
        limits.forwarded = 2000
        limits.parkTime = 2 * Limits.second
        limits.reassemblyTime = 3 * Limits.second
        limits.blockLimit = 2 * Limits.second
        limits.heartbeat = 2 * Limits.second
        limits.output = 3000
        limits.controlOutput = 1500
        limits.acknowledgementBacklog = 100
        limits.beyondWindows = 2000
        limits.streamsPerConnection = 12
        limits.listsPerConnection = 2
        limits.topics = 8
        limits.patterns = 3
        limits.matches = 3
        limits.grant = 7
        limits.memory = 1 << 20
        // A session that survives would be accounted for elsewhere.
        limits.resumeTime = 0
        return limits
    }()

    private static let mallory: Permissions = {
        func set(_ patterns: [String]) -> TopicSet { TopicSet(patterns.compactMap { try? TopicPattern(parsing: $0) }) }
        // Only topic names of one token: the name of the two canaries' topic has two.
        return Permissions(
            publish: set(["*"]), subscribe: set(["*"]),
            control: set(["*", "$SYS.topics", "$SYS.events", "$SYS.stats"]), block: set(["*"]))
    }()

    private static let table = AccessTable(
        users: [
            AccessTable.User(name: "canary", password: "hash", permissions: .all),
            AccessTable.User(name: "mallory", password: "hash", permissions: mallory),
            AccessTable.User(name: "operator", password: "hash", permissions: .all),
        ], anonymous: mallory)
    /// The table without `mallory` and the operator.
    private static let less = AccessTable(
        users: [AccessTable.User(name: "canary", password: "hash", permissions: .all)], anonymous: mallory)

    init() {
        limits = FuzzBroker.limits
        memory = MemoryBudget(limit: limits.memory)
        for index in 0..<2 {
            shards.append(
                Shard(
                    index: index, count: 2, limits: limits, memory: memory, quotas: quotas, seed: UInt64(index) + 7,
                    access: FuzzBroker.table, now: now))
        }
    }

    // Connections

    func open(_ peer: FuzzPeer) -> ConnectionID? {
        let id = shards[peer.shard].open(peer: "10.0.0.\(peer.shard):1", wireProtocol: peer.wireProtocol, now: now)
        if let id { peers[peer.shard][id] = peer }
        return id
    }

    /// Feeds bytes, in memory that is freed afterwards.
    func receive(_ bytes: UnsafeRawBufferPointer, on peer: FuzzPeer) {
        guard let id = peer.id, !peer.isClosed else { return }
        now.monotonic += 1000
        withCopy(bytes) { shards[peer.shard].receive($0, on: id, now: now) }
        run()
    }

    /// Feeds any other input to a peer's shard.
    func act(_ peer: FuzzPeer, _ body: (Shard, ConnectionID, Instant) -> Void) {
        guard let id = peer.id, !peer.isClosed else { return }
        now.monotonic += 1000
        body(shards[peer.shard], id, now)
        run()
    }

    func answerLogin(_ choice: Int) {
        guard !logins.isEmpty else { return }
        let request = logins.removeFirst()
        func user(_ name: String, expires: Int64? = nil) -> LoginOutcome {
            guard let permissions = FuzzBroker.table.user(name)?.permissions else { return .wrong }
            return .accepted(
                Principal(user: name, permissions: permissions, proof: .password("hash"), expires: expires))
        }
        let outcome: LoginOutcome =
            switch choice & 7 {
            case 0: .wrong
            case 1: .expired(user: nil)
            case 2: .slowed(seconds: 3)
            case 3: .busy
            case 4: user("mallory", expires: now.wall + 5_000_000_000)
            case 5: user("operator")
            case 6: user("canary")
            default: user("mallory")
            }
        if choice & 7 == 5 { hasOperator = true }
        // Only `Canary`, which passes 6 + 256, may log in as the user `canary`; the input may not.
        if choice & 7 == 6, choice != 6 + 256 { return answer(request, .wrong) }
        answer(request, outcome)
    }

    private func answer(_ request: LoginRequest, _ outcome: LoginOutcome) {
        for shard in shards where request.ticket.number != 0 {
            // A ticket is known only to its own shard.
            if shard.parts.tables.connections.find(request.ticket.connection) != nil {
                shard.authenticated(request.ticket, outcome, now: now)
            }
        }
        run()
    }

    func reload(_ choice: Int) {
        var limits = limits
        limits.retain = [1, 20, 50][choice % 3]
        limits.publishRate = [0, 4, 100][choice / 3 % 3]
        limits.publishBytes = [0, 60, 0][choice / 9 % 3]
        if choice & 0x40 != 0 {
            isPaced = isPaced || limits.publishRate == 4 || limits.publishBytes > 0
            for shard in shards { shard.adopt(limits, now: now) }
        } else {
            let table = choice & 0x20 != 0 ? FuzzBroker.less : FuzzBroker.table
            for shard in shards { shard.reload(table, now: now) }
        }
        run()
    }

    func drain() {
        hasOperator = true
        for shard in shards { shard.drain(now: now) }
        run()
    }

    // Patterns

    /// Positions in topics, most of them in their present epochs, or any other data.
    func positions(_ input: inout FuzzInput) -> [UInt8] {
        let count = input.number(below: 6)
        guard count < 5 else { return Array(input.piece()) }
        let members = position(count, &input).map { #""\#($0.topic)":["\#($0.epoch)",\#($0.sequence)]"# }
        return Array("{\(members.joined(separator: ","))}".utf8)
    }

    func position(_ count: Int, _ input: inout FuzzInput) -> [ResumePosition] {
        (0..<count).map { _ in
            let choice = input.byte()
            let topic = ["a", "b", "c", "a.b", "$SYS.events"][Int(choice >> 1) % 5]
            let known = shards.compactMap { $0.parts.tables.topics[topic] }.first?.epoch
            let epoch = choice & 1 == 0 ? known ?? 5 : 5
            return ResumePosition(topic: topic, epoch: epoch, sequence: UInt64(1 + input.number(below: 40)))
        }
    }

    // Time and effects

    func advance(_ ticks: Int) {
        for _ in 0..<ticks {
            now.monotonic += Timers.interval
            now.wall += Int64(Timers.interval)
            for shard in shards { shard.fire(now: now) }
            run()
        }
    }

    /// Lets time pass in which the broker does not run, as on a machine that sleeps.
    func standStill() {
        now.monotonic += Limits.standstill
        advance(1)
    }

    private func run() {
        for _ in 0..<10_000 {
            var isBusy = false
            for index in shards.indices { isBusy = turn(index) || isBusy }
            if !isBusy { return check() }
        }
        report("the shards never become idle")
    }

    private func turn(_ index: Int) -> Bool {
        let shard = shards[index]
        guard shard.hasWork || !inboxes[index].isEmpty || !shard.effects.isEmpty else { return false }
        Turn(broker: self, index: index).turn()
        return true
    }

    private struct Turn: TurnDriver {
        let broker: FuzzBroker
        let index: Int

        var engine: Shard { broker.shards[index] }
        var now: Instant { broker.now }

        /// Does nothing: bytes are fed as they arrive.
        func readSockets() {}
        func adoptSockets() {}
        func post(_ batch: [ShardMessage], to shard: Int) { broker.inboxes[shard].append(batch) }

        func readInbox() {
            let batches = broker.inboxes[index]
            broker.inboxes[index] = []
            for batch in batches { engine.receive(batch, now: now) }
        }

        func carryOut() {
            for id in engine.effects.close { broker.peers[index].removeValue(forKey: id)?.closed() }
            for (id, reading) in engine.effects.reading { broker.peers[index][id]?.isReading = reading }
            broker.logins += engine.effects.logins
            engine.effects.close.removeAll()
            engine.effects.reading.removeAll()
            engine.effects.log.removeAll()
            engine.effects.logins.removeAll()
        }

        func writeOutput() {
            withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 16) { pieces in
                write(takeFlushes(), pieces) { id, pieces, _ in
                    broker.peers[index][id].flatMap { $0.isHTTP1 ? nil : $0.take(pieces) }
                }
            }
        }
    }

    // Invariants

    /// Whether no client is allowed to end the canary and nothing slows it. The canary is checked only if this is so.
    var isUndisturbed: Bool { !hasOperator && !isPaced }

    private func check() {
        // Queued and unread data is charged late, in blocks.
        let most = limits.memory + limits.memory / MemoryRelief.overshoot + Chunk.largest + 64 * Block.size
        mustHold(memory.used <= most, "\(memory.used) bytes are used, \(limits.memory) are allowed")
        for shard in shards {
            for place in 0..<shard.parts.tables.connections.bound {
                if let connection = shard.parts.tables.connections.at(place) { check(connection) }
            }
        }
    }

    private func check(_ connection: Connection) {
        mustHold(connection.streams.count <= limits.streamsPerConnection + 1, "there are too many streams")
        mustHold(connection.input.parkedBytes >= 0 && connection.input.forwarded >= 0, "the counts are negative")
        mustHold(
            connection.input.parkedCount <= limits.parkedCount, "\(connection.input.parkedCount) publishes are parked")
        // A buffer grows by doubling, and the data of one read may be held completely.
        let held = connection.http?.bufferedBytes ?? connection.rsocket.bufferedBytes
        mustHold(held <= 4 * limits.reassembly + (64 << 10), "a connection holds \(held) bytes")
    }

    /// Lets all clients leave, and checks that nothing of theirs remains.
    func leave() {
        for index in shards.indices {
            for (id, _) in peers[index].sorted(by: { $0.key.index < $1.key.index }) {
                shards[index].lost(id, reason: "gone", now: now)
            }
        }
        run()
        advance(13)
        for shard in shards {
            mustHold(
                shard.parts.tables.connections.count == 0,
                "\(shard.parts.tables.connections.count) connections are left")
            mustHold(
                shard.parts.tables.streams.count == 0 && shard.parts.tables.subscriptions.count == 0, "streams are left"
            )
            mustHold(
                shard.parts.tables.subscriptions.streamCount == 0 && shard.parts.requests.intake.channels.isEmpty,
                "ids or channels are left")
            mustHold(shard.parts.output.views.count == 0, "views are left")
            mustHold(shard.parts.tables.topics.all.allSatisfy { TopicName.isSystem($0.name) }, "topics are left")
        }
        mustHold(quotas.isUnused, "quotas are held without an owner")
        let rest = shards.flatMap(\.parts.tables.topics.all).reduce(0) { $0 + $1.log.memory }
        let spare = shards.count * BlockPool.spares * Block.size
        mustHold(memory.used <= rest + spare, "\(memory.used) bytes are left")
    }
}

/// A broker's connection, seen as its socket.
class FuzzPeer {
    let broker: FuzzBroker
    let shard: Int
    let wireProtocol: WireProtocol
    private(set) var id: ConnectionID?
    /// The number of bytes that the socket still accepts.
    var window = Int.max
    var isReading = true
    private(set) var isClosed = false
    /// Whether a library handles the bytes of the peer's protocol.
    var isHTTP1 = false

    init(_ broker: FuzzBroker, _ shard: Int, _ wireProtocol: WireProtocol) {
        self.broker = broker
        self.shard = shard
        self.wireProtocol = wireProtocol
        id = broker.open(self)
        isClosed = id == nil
    }

    /// The connection's name in lists and calls; empty if the broker did not accept the connection.
    var name: String { id.map(broker.shards[shard].context.text) ?? "" }

    func send(_ bytes: UnsafeRawBufferPointer) { broker.receive(bytes, on: self) }
    func send(_ bytes: [UInt8]) { bytes.withUnsafeBytes { send($0) } }
    func send(_ write: (inout ByteBuffer) -> Void) {
        var out = ByteBuffer()
        write(&out)
        send(out.readable)
    }

    /// Lets the socket accept `count` more bytes; nil means any number.
    func read(_ count: Int?) {
        window = count.map { window == .max ? $0 : window + $0 } ?? .max
        broker.act(self) { shard, id, now in shard.writable(id, now: now) }
    }

    /// Takes as many bytes as the socket has room for, and returns their number.
    fileprivate func take(_ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) -> Int {
        var taken = 0
        for piece in pieces {
            let part = min(piece.count, window - taken)
            take(piece.slice(0..<part))
            taken += part
        }
        window -= window == .max ? 0 : taken
        return taken
    }

    func take(_ bytes: UnsafeRawBufferPointer) {}
    func closed() { isClosed = true }
}
