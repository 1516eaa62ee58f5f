// Engine: what a loop drives. Core.Shard is the broker's; what each requirement means is told there.

import Core

protocol Engine: AnyObject {
    var effects: Effects { get set }
    var deadline: UInt64? { get }
    var isIdle: Bool { get }

    func open(peer: String, face: Face, now: Instant) -> ConnectionID?
    func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant)
    func receiveEnd(on id: ConnectionID, now: Instant)
    func lost(_ id: ConnectionID, reason: String, now: Instant)
    func receive(_ mail: [Mail], now: Instant)
    func fire(now: Instant)
    func drain(now: Instant)
    func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int
    func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant)
    func writable(_ id: ConnectionID, now: Instant)
}

extension Shard: Engine {}
