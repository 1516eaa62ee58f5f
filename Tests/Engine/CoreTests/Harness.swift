// Harness: the engines of one broker without sockets, threads or a clock. Clients are byte buffers; each call runs the
// engines until nothing is left to do.

import Bytes
import RSocket

@testable import Core

final class TestBroker {
    private(set) var shards: [Shard] = []
    let memory: MemoryBudget
    let quotas = Quotas()
    let storeHealth = StoreHealth()
    let limits: Limits
    var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    private var clients: [Int: [ConnectionID: TestClient]] = [:]
    private(set) var log: [LogRecord] = []
    /// All answers to queries of the admin listener.
    private(set) var answers: [(job: UInt64, answer: ShardAnswer)] = []
    /// Messages that were sent to each shard and have not been read, oldest first.
    private var inboxes: [[[ShardMessage]]]
    /// Credentials to be checked, oldest first.
    private(set) var logins: [(shard: Int, request: LoginRequest)] = []
    /// Keeps stored topics.
    var store: TestStore
    /// Requests about shared topics that no test has taken.
    var upstream: [UpstreamRequest] = []
    /// Sockets in transfer to each shard.
    private var arrivals: [[(client: TestClient, handover: Handover)]]
    /// Makes shards take their turns at random and leave work for later.
    var chaos: LedgerRandom?

    init(shards count: Int = 1, limits: Limits = Limits(), access: AccessTable = .open) {
        self.limits = limits
        memory = MemoryBudget(limit: limits.memory)
        inboxes = Array(repeating: [], count: count)
        arrivals = Array(repeating: [], count: count)
        store = TestStore(shards: count)
        for index in 0..<count {
            shards.append(
                Shard(
                    index: index, count: count, limits: limits, memory: memory, quotas: quotas,
                    store: storeHealth, seed: UInt64(index) + 7, access: access, now: now))
            clients[index] = [:]
        }
    }

    /// A connected client on the given shard.
    func connect(_ shard: Int = 0, metadata: String = "text/plain", lifetime: UInt32 = 600_000) -> TestClient {
        let client = TestClient(self, shard)
        var setup = SetupRequest()
        setup.metadataMime = metadata
        setup.lifetime = lifetime
        client.send { FrameWriter.setup(setup, into: &$0) }
        return client
    }

    func open(_ client: TestClient) -> ConnectionID? {
        let peer = "127.0.0.1:\(1000 + clients.values.reduce(0) { $0 + $1.count })"
        guard let id = shards[client.shard].open(peer: peer, wireProtocol: client.wireProtocol, now: now) else {
            return nil
        }
        clients[client.shard]![id] = client
        return id
    }

    /// Answers the oldest login request.
    func answerLogin(_ outcome: LoginOutcome) {
        let (shard, request) = logins.removeFirst()
        shards[shard].authenticated(request.ticket, outcome, now: now)
        run()
    }

    /// Puts a query of the admin listener to a shard.
    /// - Returns: the answer; nil if the query waits for the store. Then `answers` gets it later.
    func ask(_ query: ShardQuery, shard: Int = 0) -> ShardAnswer? {
        let count = answers.count
        shards[shard].answer(query, job: UInt64(count), now: now)
        run()
        return answers.count > count ? answers.last?.answer : nil
    }

    func reload(_ access: AccessTable) {
        for shard in shards { shard.reload(access, now: now) }
        run()
    }

    func advance(seconds: Double) {
        var rest = UInt64(seconds * 1e9)
        // Time passes in steps of one tick, as with the deadline of a real loop.
        while rest > 0 {
            let step = min(rest, 250_000_000)
            now.monotonic += step
            now.wall += Int64(step)
            rest -= step
            for shard in shards where shard.deadline! <= now.monotonic { shard.fire(now: now) }
            run()
        }
    }

    /// Carries out effects until there are none; with `chaos`, only some of them, shard by shard in any order.
    func run() {
        guard chaos != nil else { return runAll() }
        for _ in 0..<chaos!.next(2 * shards.count) {
            let index = chaos!.next(shards.count)
            turn(index, batches: chaos!.next(inboxes[index].count + 1))
        }
    }

    /// Runs until nothing is left to do.
    func runAll() {
        var busy = true
        while busy {
            busy = false
            for index in shards.indices { busy = turn(index, batches: inboxes[index].count) || busy }
        }
    }

    /// One turn of a shard.
    func turn(_ index: Int) { turn(index, batches: inboxes[index].count) }

    /// One turn of a shard, with `batches` batches from its inbox. Returns whether there was anything to do.
    @discardableResult
    private func turn(_ index: Int, batches: Int) -> Bool {
        let shard = shards[index]
        guard shard.hasWork || batches > 0 || !arrivals[index].isEmpty || !shard.effects.isEmpty else { return false }
        Turn(broker: self, index: index, batches: batches).turn()
        return true
    }

    private struct Turn: TurnDriver {
        let broker: TestBroker
        let index: Int
        let batches: Int

        var engine: Shard { broker.shards[index] }
        var now: Instant { broker.now }

        /// Does nothing: bytes are fed as they arrive.
        func readSockets() {}
        /// Does nothing: time passes in `advance`.
        func fireTimers() {}
        func adoptSockets() { broker.takeArrivals(index) }
        func carryOut() { broker.carryOut(index) }
        func post(_ batch: [ShardMessage], to shard: Int) { broker.inboxes[shard].append(batch) }

        func readInbox() {
            for batch in broker.inboxes[index].prefix(batches) { engine.receive(batch, now: now) }
            broker.inboxes[index].removeFirst(batches)
        }

        func writeOutput() {
            withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 16) { pieces in
                write(takeFlushes(), pieces) { id, pieces, _ in
                    broker.clients[index]![id].flatMap { $0.isClosed ? nil : $0.take(pieces) }
                }
            }
        }
    }

    private func carryOut(_ index: Int) {
        let shard = shards[index]
        carryOutCloses(index)
        for handover in shard.effects.handovers {
            guard let client = clients[index]!.removeValue(forKey: handover.from) else { continue }
            arrivals[handover.shard].append((client, handover))
        }
        shard.effects.handovers.removeAll()
        for (id, reading) in shard.effects.reading { clients[index]![id]?.isRead = reading }
        for request in shard.effects.store { store.take(request, from: index) }
        shard.effects.store.removeAll()
        upstream += shard.effects.upstream
        shard.effects.upstream.removeAll()
        log += shard.effects.log
        logins += shard.effects.logins.map { (index, $0) }
        shard.effects.logins.removeAll()
        shard.effects.reading.removeAll()
        shard.effects.log.removeAll()
        answers += shard.effects.answers
        shard.effects.answers.removeAll()
    }

    private func carryOutCloses(_ index: Int) {
        for id in shards[index].effects.close { clients[index]!.removeValue(forKey: id)?.isClosed = true }
        shards[index].effects.close.removeAll()
    }

    /// Hands sockets that moved from other shards to their connections, as a real loop does.
    private func takeArrivals(_ index: Int) {
        let due = arrivals[index]
        arrivals[index] = []
        for (client, handover) in due {
            carryOutCloses(index)
            let id = shards[index].takeOver(handover, now: now)
            clients[index]![id]?.isClosed = true
            clients[index]![id] = client
            client.moved(to: id, on: index)
        }
    }
}

final class TestClient {
    let broker: TestBroker
    private(set) var shard: Int
    private(set) var id = ConnectionID(index: 0, generation: 0)
    var bytes = ByteBuffer()
    /// Bytes that the client's socket still accepts.
    var window = Int.max
    var isClosed = false
    var isRead = true
    /// Whether the shards have turns after what the client does.
    var isFollowedByTurns = true

    let wireProtocol: WireProtocol

    init(_ broker: TestBroker, _ shard: Int, wireProtocol: WireProtocol = .rsocket) {
        self.broker = broker
        self.shard = shard
        self.wireProtocol = wireProtocol
        id = broker.open(self)!
    }

    /// Takes as many bytes as the socket has room for, and returns their number.
    fileprivate func take(_ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) -> Int {
        var taken = 0
        for piece in pieces {
            let part = min(piece.count, window - taken)
            bytes.append(UnsafeRawBufferPointer(rebasing: piece[..<part]))
            taken += part
        }
        window -= taken
        return taken
    }

    /// Notes that the client's socket now belongs to another connection.
    func moved(to id: ConnectionID, on shard: Int) { (self.id, self.shard) = (id, shard) }

    func send(_ write: (inout ByteBuffer) -> Void) {
        var buffer = ByteBuffer()
        write(&buffer)
        broker.now.monotonic += 1000
        broker.shards[shard].receive(buffer.readable, on: id, now: broker.now)
        if isFollowedByTurns { broker.run() }
    }

    /// Lets the socket accept `count` more bytes.
    func read(_ count: Int) {
        window = count == .max ? .max : window + count
        broker.shards[shard].writable(id, now: broker.now)
        broker.run()
    }

    func disconnect() {
        broker.shards[shard].lost(id, reason: "test", now: broker.now)
        if isFollowedByTurns { broker.run() }
    }

    // Requests, with plain-text routes

    func subscribe(_ route: String, n: UInt32 = 0x7FFF_FFFF, data: String = "", stream: UInt32 = 1) {
        request(route, data) {
            FrameWriter.requestStream(
                stream: stream, initialN: n, metadata: $0, data: $1, fragment: 1 << 20, into: &$2)
        }
    }

    func fireAndForget(_ route: String, _ text: String, stream: UInt32 = 9) {
        request(route, text) {
            FrameWriter.requestFNF(stream: stream, metadata: $0, data: $1, fragment: 1 << 20, into: &$2)
        }
    }

    /// Publishes several messages at once.
    func fireAndForget(_ route: String, _ texts: [String], stream: UInt32 = 9) {
        request(route, texts) {
            FrameWriter.requestFNF(stream: stream, metadata: $0, data: $1, fragment: 1 << 20, into: &$2)
        }
    }

    func publish(_ route: String, _ text: String, stream: UInt32 = 3) {
        request(route, text) {
            FrameWriter.requestResponse(stream: stream, metadata: $0, data: $1, fragment: 1 << 20, into: &$2)
        }
    }

    func channel(_ route: String, _ text: String, n: UInt32 = 0x7FFF_FFFF, stream: UInt32 = 5, complete: Bool = false) {
        request(route, text) {
            FrameWriter.requestChannel(
                stream: stream, initialN: n, complete: complete, metadata: $0, data: $1, fragment: 1 << 20, into: &$2)
        }
    }

    func items(_ texts: [String], stream: UInt32 = 5) {
        send { buffer in
            for var text in texts {
                text.withUTF8 {
                    FrameWriter.payload(
                        stream: stream, next: true, complete: false, metadata: nil, data: UnsafeRawBufferPointer($0),
                        fragment: 1 << 20, into: &buffer)
                }
            }
        }
    }

    func complete(stream: UInt32 = 5) {
        send {
            FrameWriter.payload(
                stream: stream, next: false, complete: true, metadata: nil,
                data: UnsafeRawBufferPointer(start: nil, count: 0), fragment: 1 << 20, into: &$0)
        }
    }

    func requestN(_ n: UInt32, stream: UInt32 = 1) { send { FrameWriter.requestN(stream: stream, n: n, into: &$0) } }
    func cancel(stream: UInt32 = 1) { send { FrameWriter.cancel(stream: stream, into: &$0) } }

    private func request(
        _ route: String, _ text: String = "",
        _ write: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, inout ByteBuffer) -> Void
    ) {
        request(route, [text], write)
    }

    private func request(
        _ route: String, _ texts: [String],
        _ write: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, inout ByteBuffer) -> Void
    ) {
        let route = Array(route.utf8)
        send { buffer in
            for text in texts {
                route.withUnsafeBytes { route in Array(text.utf8).withUnsafeBytes { write(route, $0, &buffer) } }
            }
        }
    }

    /// What has arrived since the last call, one line per frame: "1:a" a message, "1:|" completion, "1:! text" an
    /// error, "5:+8" REQUEST_N, "5:ack" …
    func received() -> [String] {
        var lines: [String] = []
        takeFrames { lines.append(TestClient.describe($0)) }
        return lines
    }

    /// Takes the complete frames since the last call, each without its length.
    func takeFrames(_ body: (UnsafeRawBufferPointer) -> Void) {
        while bytes.count >= 3, bytes.count >= 3 + bytes.readable.u24(at: 0) {
            let length = bytes.readable.u24(at: 0)
            body(bytes.readable.slice(3..<3 + length))
            bytes.consume(3 + length)
        }
    }

    static func describe(_ frame: UnsafeRawBufferPointer) -> String {
        guard let decoded = try? Frame.decode(frame.bytes) else { return "undecodable" }
        func text(_ range: Range<Int>) -> String { String(decoding: frame[range], as: UTF8.self) }
        let stream = decoded.stream
        switch decoded.body {
        case .payload(let next, let complete, let content):
            var line = "\(stream):"
            if let metadata = content.metadata, let reported = dropped(frame.slice(metadata)) {
                line += "[\(reported)]"
                if let topic = topic(frame.slice(metadata)) { line += "\(topic):" }
            }
            if next { line += text(content.data) }
            if complete { line += "|" }
            return line
        case .error(let code, let message): return "\(stream):! \(String(code, radix: 16)) \(text(message))"
        case .requestN(let n): return "\(stream):+\(n)"
        case .cancel: return "\(stream):x"
        case .keepalive(let respond, _, let data): return "keepalive\(respond ? "?" : "") \(text(data))"
        default: return "\(decoded.header.typeName)"
        }
    }

    /// The metadata entry with the topic's name.
    static func topic(_ metadata: UnsafeRawBufferPointer) -> String? {
        let head = MessageMetadata.topicEntry("").count
        guard metadata.count > MessageMetadata.entry + head else { return nil }
        let entry = metadata.slice(MessageMetadata.entry..<metadata.count)
        let length = entry.u24(at: head - 3)
        let name = String(decoding: entry.slice(head..<Swift.min(head + length, entry.count)), as: UTF8.self)
        return Array(entry).starts(with: MessageMetadata.topicEntry(name)) ? name : nil
    }

    /// Sequence and dropped-before of the broker's own metadata entry.
    private static func dropped(_ metadata: UnsafeRawBufferPointer) -> String? {
        guard metadata.count >= MessageMetadata.entry, metadata[0] == UInt8(MessageMetadata.mime.utf8.count - 1) else {
            return nil
        }
        let figures = MessageMetadata.entry - 32
        let sequence: UInt64 = metadata.bigEndian(at: figures + 8)
        let lost: UInt64 = metadata.bigEndian(at: figures + 24)
        return lost == 0 ? "\(sequence)" : "\(sequence)-\(lost)"
    }
}

extension String {
    /// Without trailing spaces.
    var trimmed: String { String(reversed().drop { $0 == " " }.reversed()) }
}
