// ScriptedEngine: an engine controlled by its clients, for tests of the loop.

import Core
import Replay
import EventLoop

@testable import Core
@testable import Server

/// What an engine saw. The test reads it once the loop's thread has ended.
final class EngineRecord: @unchecked Sendable {
    var received: [(index: UInt32, count: Int)] = []
    var receivedWhilePaused = 0
    var blocked = 0
    var writable = 0
    var lost: [String] = []
    var secured: [PeerCertificate?] = []
    var ends = 0
    var fired = 0
    var refused = 0
    /// How many queries of the operator had been answered at each read.
    var queriesBefore: [Int] = []
    var queries = 0
    var faces: [WireProtocol] = []
}

/// An engine that follows its client's first bytes:
///
///     flood N   sends N bytes, byte i being i mod 251, then closes
///     close     sends "bye", then closes
///     pause     sends "paused", reads nothing for 50 ms, then sends "resumed"
///     refuse    refuses every connection after this one
///     busy      sends "busy"; from then on each message uses up its turn and is followed by another, until a client
///               sends "calm", which is answered in the same way
///
/// Anything else is only counted. "PRI", the beginning of HTTP/2, may precede it.
final class ScriptedEngine: Engine {
    private struct Peer {
        var generation: UInt32
        var output = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        var written = 0
        var closes = false
        var paused = false
        var reported = false
    }

    var effects = Effects(shards: 1)
    private var peers: [UInt32: Peer] = [:]
    private var generation: UInt32 = 0
    private var resume: (id: ConnectionID, at: UInt64)?
    private var refusing = false
    private var isBusy = false
    private var draining = false
    private let record: EngineRecord

    init(_ record: EngineRecord) { self.record = record }

    deinit { for peer in peers.values { peer.output.deallocate() } }

    var deadline: UInt64? { resume?.at }
    var isIdle: Bool { peers.isEmpty }
    var undelivered: UInt64 { 0 }
    var hasWork: Bool { false }
    func readLimit(of id: ConnectionID) -> Int { .max }
    private(set) var isTurnOver = false
    var spentFeeding: Double { 0 }

    func beginTurn() { isTurnOver = false }
    func goOn(now: Instant) {}
    func isBehind(_ id: ConnectionID) -> Bool { false }

    func admit(peer: String, wireProtocol: WireProtocol, now: Instant) throws(ConnectionRefusal) -> ConnectionID {
        if refusing {
            record.refused += 1
            throw .draining
        }
        record.faces.append(wireProtocol)
        generation += 1
        // The lowest free index, so that indexes are reused at once.
        let index = (0...).first { peers[$0] == nil }!
        peers[index] = Peer(generation: generation)
        return ConnectionID(index: index, generation: generation)
    }

    func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant) {}
    func takeOver(_ handover: Handover, now: Instant) -> ConnectionID { handover.from }
    func reload(_ access: AccessTable, now: Instant) {}
    func count(_ result: LoginResult) {}
    func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant) {
        record.secured.append(certificate)
    }

    func notSecured(_ id: ConnectionID, reason: String, now: Instant) { lost(id, reason: reason, now: now) }

    func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        guard var peer = peers[id.index], peer.generation == id.generation else { return }
        record.received.append((id.index, bytes.count))
        record.queriesBefore.append(record.queries)
        if peer.paused { record.receivedWhilePaused += 1 }
        defer { peers[id.index] = peer }
        if peer.reported { return }
        peer.reported = true
        var words = String(decoding: bytes.prefix(32), as: UTF8.self).split(whereSeparator: \.isWhitespace)
        if words.first == "PRI" { words.removeFirst() }
        switch words.first {
        case "flood":
            let count = Int(words[1])!
            peer.output = .allocate(byteCount: count, alignment: 16)
            for index in 0..<count { peer.output[index] = UInt8(index % 251) }
            peer.closes = true
            effects.flush.append(id)
        case "close":
            peer.closes = true
            write("bye", id, &peer)
        case "pause":
            peer.paused = true
            effects.reading.append((id, false))
            resume = (id, now.monotonic + 50_000_000)
            write("paused", id, &peer)
        case "refuse":
            refusing = true
            write("refusing", id, &peer)
        case "busy", "calm":
            isBusy = words[0] == "busy"
            if isBusy { sendItself() }
            write(String(words[0]), id, &peer)
        default: break
        }
    }

    func receiveEnd(on id: ConnectionID, now: Instant) {
        record.ends += 1
        guard let peer = peers[id.index], peer.generation == id.generation else { return }
        if peer.written == peer.output.count { discard(id) }
    }

    func lost(_ id: ConnectionID, reason: String, now: Instant) {
        record.lost.append(reason)
        peers.removeValue(forKey: id.index)?.output.deallocate()
    }

    func receive(_ messages: [ShardMessage], now: Instant) {
        guard isBusy else { return }
        isTurnOver = true
        sendItself()
    }

    private func sendItself() { effects.messages[0].append(ShardMessage(content: .reportHeard(by: 0))) }

    func fire(now: Instant) {
        record.fired += 1
        guard let (id, _) = resume, var peer = peers[id.index] else { return }
        resume = nil
        peer.paused = false
        effects.reading.append((id, true))
        write("resumed", id, &peer)
        peers[id.index] = peer
    }

    func adopt(_ limits: Limits, now: Instant) {}

    func drain(now: Instant) { draining = true }
    func found(_ first: SequenceNumber?, _ search: TimeSearch, now: Instant) {}
    func restore(_ topics: [StoredTopic], now: Instant) {}
    func stored(_ reports: [StoreReport], now: Instant) {}
    func upstream(_ reports: [UpstreamReport], now: Instant) {}
    func upstream(_ status: UpstreamStatus, now: Instant) {}
    func answer(_ request: HistoryRequest, _ answer: HistoryAnswer, now: Instant) {}
    func answer(_ query: ShardQuery, job: UInt64, now: Instant) {
        record.queries += 1
        effects.answers.append((job, .present))
    }

    func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        guard let peer = peers[id.index] else { return 0 }
        var rest = UnsafeRawBufferPointer(peer.output)[peer.written...].prefix(256 << 10)
        var count = 0
        while !rest.isEmpty, count < pieces.count {
            pieces[count] = UnsafeRawBufferPointer(rebasing: rest.prefix(10_000))
            rest = rest.dropFirst(10_000)
            count += 1
        }
        return count
    }

    func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        peers[id.index]!.written += count
        let peer = peers[id.index]!
        if blocked {
            record.blocked += 1
        } else if peer.written < peer.output.count {
            effects.flush.append(id)
        } else if peer.closes {
            discard(id)
        }
    }

    // This engine does not handle HTTP/1.1.
    func speaksHTTP1(on id: ConnectionID, now: Instant) {}
    func request(_ head: HTTP1Request, on id: ConnectionID, now: Instant) {}
    func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {}
    func requestEnded(on id: ConnectionID, now: Instant) {}
    func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer? { nil }
    func beginStream(on id: ConnectionID, behind rest: UnsafeRawBufferPointer, now: Instant) {}
    func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece { .gone }
    func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant) {}

    func writable(_ id: ConnectionID, now: Instant) {
        record.writable += 1
        effects.flush.append(id)
    }

    private func write(_ text: String, _ id: ConnectionID, _ peer: inout Peer) {
        peer.output.deallocate()
        peer.output = .allocate(byteCount: text.utf8.count, alignment: 16)
        peer.output.copyBytes(from: text.utf8)
        peer.written = 0
        effects.flush.append(id)
    }

    private func discard(_ id: ConnectionID) {
        effects.close.append(id)
        peers.removeValue(forKey: id.index)?.output.deallocate()
    }
}
