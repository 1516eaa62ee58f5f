// Engine: the interface that a loop requires of the engine that it drives. The broker uses Core.Shard, which documents
// each requirement.

import Core
import Replay

protocol Engine: TurnEngine {
    var isIdle: Bool { get }
    var undelivered: UInt64 { get }
    func readLimit(of id: ConnectionID) -> Int
    var isTurnOver: Bool { get }
    var spentFeeding: Double { get }

    func admit(peer: String, wireProtocol: WireProtocol, now: Instant) throws(ConnectionRefusal) -> ConnectionID
    func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant)
    func notSecured(_ id: ConnectionID, reason: String, now: Instant)
    func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant)
    func receiveEnd(on id: ConnectionID, now: Instant)
    func lost(_ id: ConnectionID, reason: String, now: Instant)
    func receive(_ messages: [ShardMessage], now: Instant)
    func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant)
    func reload(_ access: AccessTable, now: Instant)
    func count(_ result: LoginResult)
    func isBehind(_ id: ConnectionID) -> Bool
    func adopt(_ limits: Limits, now: Instant)
    func drain(now: Instant)
    func takeOver(_ handover: Handover, now: Instant) -> ConnectionID
    func restore(_ topics: [StoredTopic], now: Instant)
    func stored(_ reports: [StoreReport], now: Instant)
    func upstream(_ reports: [UpstreamReport], now: Instant)
    func upstream(_ status: UpstreamStatus, now: Instant)
    func answer(_ request: HistoryRequest, _ answer: HistoryAnswer, now: Instant)
    func found(_ first: SequenceNumber?, _ search: TimeSearch, now: Instant)
    func answer(_ query: ShardQuery, job: UInt64, now: Instant)
    func writable(_ id: ConnectionID, now: Instant)

    // Connections that speak HTTP/1.1
    func speaksHTTP1(on id: ConnectionID, now: Instant)
    func request(_ head: HTTP1Request, on id: ConnectionID, now: Instant)
    func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant)
    func requestEnded(on id: ConnectionID, now: Instant)
    func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer?
    func beginStream(on id: ConnectionID, behind rest: UnsafeRawBufferPointer, now: Instant)
    func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece
    func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant)
}

extension Shard: Engine {}
