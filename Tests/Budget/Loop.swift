// Loop: turns without sockets, a clock or threads, in the order of the server's loop.

import Bytes
import Core

/// A connection, with its peer's input and the number of bytes that its socket has taken.
final class Peer {
    let shard: Int
    let id: ConnectionID
    /// The next read.
    fileprivate var unread = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes taken.
    fileprivate(set) var taken = 0
    /// Whether the socket accepts nothing.
    var isStalled = false
    /// The bytes sent to the peer while the loop `hears`.
    var heard: [UInt8] = []
    /// Requests more messages when half of the credit is used.
    var refill: CreditWindow?

    init(shard: Int, id: ConnectionID) {
        self.shard = shard
        self.id = id
    }
}

/// A subscriber's credit window.
struct CreditWindow {
    /// Half a window of messages, in bytes.
    private let half: Int
    private let halfCount: Int
    private var unrefilled = 0
    /// A REQUEST_N, whose last four bytes are the number.
    private let request: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - request: a REQUEST_N of the stream, which stays in memory permanently.
    ///   - frame: the size of one message, in bytes.
    init(window: Int, frame: Int, request: UnsafeMutableRawBufferPointer) {
        halfCount = window / 2
        half = halfCount * frame
        self.request = request
    }

    /// Counts `count` bytes that the subscriber has read. Returns its next request, if one is due.
    mutating func took(_ count: Int) -> UnsafeRawBufferPointer? {
        unrefilled += count
        guard unrefilled >= half else { return nil }
        let halves = unrefilled / half
        unrefilled -= halves * half
        request.storeBytes(
            of: UInt32(halves * halfCount).bigEndian, toByteOffset: request.count - 4, as: UInt32.self)
        return UnsafeRawBufferPointer(request)
    }
}

final class Loop {
    private(set) var shards: [Shard] = []
    private(set) var peers: [[Peer]]
    /// Whether the output to peers is kept.
    var hears = false
    private let memory: MemoryBudget
    private var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    /// By shard: peers with input, and messages from other shards.
    private var ready: [[Peer]]
    private var inboxes: [[[ShardMessage]]]
    // A buffer that is emptied and reused, as in the real loop.
    private var reading: [Peer] = []
    private var flushing: [ConnectionID] = []
    private let pieces = UnsafeMutableBufferPointer<UnsafeRawBufferPointer>.allocate(capacity: 64)

    init(shards count: Int, limits: Limits = Limits(), access: AccessTable = .open) {
        memory = MemoryBudget(limit: limits.memory)
        peers = Array(repeating: [], count: count)
        ready = Array(repeating: [], count: count)
        inboxes = Array(repeating: [], count: count)
        for index in 0..<count {
            shards.append(
                Shard(
                    index: index, count: count, limits: limits, memory: memory, seed: UInt64(index) + 7,
                    access: access, now: now))
        }
    }

    deinit { pieces.deallocate() }

    /// - Parameter certificate: the peer's TLS certificate, if it uses TLS.
    func connect(shard: Int, wireProtocol: WireProtocol = .rsocket, certificate: String? = nil) throws(Fault) -> Peer {
        guard
            let id = shards[shard].open(
                peer: "127.0.0.1:\(1000 + peers[shard].count)", wireProtocol: wireProtocol, now: now),
            id.index <= UInt32(peers[shard].count)
        else { throw Fault(message: "a connection was refused") }
        let peer = Peer(shard: shard, id: id)
        if id.index == UInt32(peers[shard].count) {
            peers[shard].append(peer)
        } else {
            peers[shard][Int(id.index)] = peer
        }
        if let certificate {
            shards[shard].secured(id, certificate: PeerCertificate(user: certificate, subject: certificate), now: now)
        }
        return peer
    }

    /// Makes the engine lose the peer's socket.
    func lose(_ peer: Peer) throws(Fault) {
        let shard = shards[peer.shard]
        shard.lost(peer.id, reason: "the peer hung up", now: now)
        shard.effects.close.removeAll(keepingCapacity: true)
        try runDue(peer.shard)
        try run()
    }

    func adopt(_ limits: Limits) throws(Fault) {
        for index in shards.indices {
            shards[index].adopt(limits, now: now)
            try runDue(index)
        }
        try run()
    }

    /// Lets a quarter of a second pass: timers fire as they are due.
    func tick(shard index: Int = 0) throws(Fault) {
        let end = now.monotonic + Limits.second / 4
        let shard = shards[index]
        while now.monotonic < end {
            let next = max(now.monotonic, min(end, shard.deadline ?? end))
            now.wall += Int64(next - now.monotonic)
            now.monotonic = next
            if let deadline = shard.deadline, deadline <= now.monotonic { shard.fire(now: now) }
            try runDue(index)
            try run()
        }
    }

    /// Makes the peer's bytes, at most one read, ready to be read. They must stay in memory until `run` returns.
    func arrived(_ bytes: UnsafeRawBufferPointer, from peer: Peer) {
        peer.unread = bytes
        ready[peer.shard].append(peer)
    }

    /// Runs turns until nothing is left to do.
    func run() throws(Fault) {
        var busy = true
        while busy {
            busy = false
            for index in shards.indices where try turn(index) { busy = true }
        }
    }

    private func turn(_ index: Int) throws(Fault) -> Bool {
        let shard = shards[index]
        guard !ready[index].isEmpty || !inboxes[index].isEmpty || !shard.effects.flush.isEmpty || shard.hasWork else {
            return false
        }
        // Less than a tick in total, so that no timer is due.
        now.monotonic += 1000
        now.wall += 1000
        Turn(self, index).turn()
        try expectNoneClosed(index)
        return true
    }

    private struct Turn: TurnDriver {
        let loop: Loop
        let engine: Shard
        let index: Int

        init(_ loop: Loop, _ index: Int) {
            self.loop = loop
            engine = loop.shards[index]
            self.index = index
        }

        var now: Instant { loop.now }

        func readSockets() {
            swap(&loop.reading, &loop.ready[index])
            for peer in loop.reading {
                loop.takeMessages(index)
                engine.receive(peer.unread, on: peer.id, now: now)
            }
            loop.reading.removeAll(keepingCapacity: true)
        }

        func readInbox() { loop.takeMessages(index) }
        func adoptSockets() {}
        /// `turn` carries out effects.
        func carryOut() {}
        func post(_ batch: [ShardMessage], to shard: Int) { loop.inboxes[shard].append(batch) }
        func writeOutput() { loop.flush(index, self) }
    }

    /// Carries out an engine's effects between turns.
    private func runDue(_ index: Int) throws(Fault) {
        let turn = Turn(self, index)
        turn.postShardMessages()
        turn.writeOutput()
        turn.postShardMessages()
        try expectNoneClosed(index)
    }

    private func expectNoneClosed(_ index: Int) throws(Fault) {
        let shard = shards[index]
        guard shard.effects.close.isEmpty, shard.effects.reading.isEmpty else {
            throw Fault(message: "a connection was closed or no longer read")
        }
        shard.effects.log.removeAll(keepingCapacity: true)
    }

    private func takeMessages(_ index: Int) {
        guard !inboxes[index].isEmpty else { return }
        var batches: [[ShardMessage]] = []
        swap(&batches, &inboxes[index])
        for batch in batches { shards[index].receive(batch, now: now) }
    }

    private func flush(_ index: Int, _ turn: Turn) {
        swap(&flushing, &shards[index].effects.flush)
        turn.write(flushing, pieces) { id, pieces, offered in
            let peer = peers[index][Int(id.index)]
            if hears { hear(peer, pieces) }
            guard !peer.isStalled else { return 0 }
            peer.taken += offered
            if let request = peer.refill?.took(offered) { arrived(request, from: peer) }
            return offered
        }
        flushing.removeAll(keepingCapacity: true)
    }

    @inline(never)
    private func hear(_ peer: Peer, _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) {
        for piece in pieces { peer.heard += Array(piece) }
    }
}
