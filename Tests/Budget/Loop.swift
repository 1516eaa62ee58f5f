// Loop: the turns of the real loop (Server.ShardLoop) without sockets, clock and threads. What it does for each engine
// is the same and in the same order: read, mail, write once per connection with output, mail.

import Bytes
import Core

/// A connection, with what its peer sends and how much its socket took.
final class Peer {
    let shard: Int
    let id: ConnectionID
    /// The next read.
    fileprivate var unread = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes taken.
    fileprivate(set) var taken = 0
    /// The socket takes nothing.
    var isStalled = false
    /// Asks for messages again when half of those asked for are used.
    var refill: Refill?

    init(shard: Int, id: ConnectionID) {
        self.shard = shard
        self.id = id
    }
}

/// A subscriber's credit window.
struct Refill {
    /// Bytes of half a window of messages.
    private let half: Int
    private let halfCount: Int
    private var unrefilled = 0
    /// A REQUEST_N whose last four bytes are the number.
    private let request: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - request: a REQUEST_N of the stream, which stays in memory for good.
    ///   - frame: bytes of one message.
    init(window: Int, frame: Int, request: UnsafeMutableRawBufferPointer) {
        halfCount = window / 2
        half = halfCount * frame
        self.request = request
    }

    /// The subscriber read `count` bytes. Returns what it asks for now, if it does.
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
    private let memory: MemoryBudget
    private var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    /// By shard: who has something to read, and what other shards sent.
    private var ready: [[Peer]]
    private var inboxes: [[[Mail]]]
    // Emptied and reused, as in the real loop.
    private var reading: [Peer] = []
    private var flushing: [ConnectionID] = []
    private let pieces = UnsafeMutableBufferPointer<UnsafeRawBufferPointer>.allocate(capacity: 64)

    init(shards count: Int) {
        let limits = Limits()
        memory = MemoryBudget(limit: limits.memory)
        peers = Array(repeating: [], count: count)
        ready = Array(repeating: [], count: count)
        inboxes = Array(repeating: [], count: count)
        for index in 0..<count {
            shards.append(
                Shard(index: index, count: count, limits: limits, memory: memory, seed: UInt64(index) + 7, now: now))
        }
    }

    deinit { pieces.deallocate() }

    func connect(shard: Int, face: Face = .rsocket) throws(Fault) -> Peer {
        guard let id = shards[shard].open(peer: "127.0.0.1:\(1000 + peers[shard].count)", face: face, now: now),
            id.index == UInt32(peers[shard].count)
        else { throw Fault(message: "a connection was refused") }
        let peer = Peer(shard: shard, id: id)
        peers[shard].append(peer)
        return peer
    }

    /// The peer's bytes, at most one read of them, are there to be read. They must stay until `run` returns.
    func arrived(_ bytes: UnsafeRawBufferPointer, from peer: Peer) {
        peer.unread = bytes
        ready[peer.shard].append(peer)
    }

    /// Turns until there is nothing left to do.
    func run() throws(Fault) {
        var busy = true
        while busy {
            busy = false
            for index in shards.indices where try turn(index) { busy = true }
        }
    }

    private func turn(_ index: Int) throws(Fault) -> Bool {
        let shard = shards[index]
        guard !ready[index].isEmpty || !inboxes[index].isEmpty || !shard.effects.flush.isEmpty else { return false }
        // Less than a tick in all, so that no timer is due.
        now.monotonic += 1000
        now.wall += 1000
        swap(&reading, &ready[index])
        for peer in reading {
            takeMail(index)
            shard.receive(peer.unread, on: peer.id, now: now)
        }
        reading.removeAll(keepingCapacity: true)
        takeMail(index)
        post(shard)
        flush(index)
        post(shard)
        guard shard.effects.close.isEmpty, shard.effects.reading.isEmpty else {
            throw Fault(message: "a connection was closed, or read no more")
        }
        shard.effects.log.removeAll(keepingCapacity: true)
        return true
    }

    private func takeMail(_ index: Int) {
        guard !inboxes[index].isEmpty else { return }
        var batches: [[Mail]] = []
        swap(&batches, &inboxes[index])
        for batch in batches { shards[index].receive(batch, now: now) }
    }

    private func flush(_ index: Int) {
        let shard = shards[index]
        swap(&flushing, &shard.effects.flush)
        for id in flushing {
            let count = shard.gather(id, into: pieces)
            var offered = 0
            for place in 0..<count { offered += pieces[place].count }
            guard offered > 0 else { continue }
            let peer = peers[index][Int(id.index)]
            let taken = peer.isStalled ? 0 : offered
            shard.wrote(taken, blocked: taken < offered, on: id, now: now)
            peer.taken += taken
            if let request = peer.refill?.took(taken) { arrived(request, from: peer) }
        }
        flushing.removeAll(keepingCapacity: true)
    }

    private func post(_ shard: Shard) {
        shard.effects.takeMail { batch, other in inboxes[other].append(batch) }
    }
}
