// Shard: the broker engine of one thread, without I/O, clock or randomness of its own. A loop (or a simulator) feeds it
// inputs and carries out its effects.

/// A moment, as the loop read it once for a whole batch of inputs.
public struct Instant: Sendable {
    /// Nanoseconds of a clock that never steps back.
    public var monotonic: UInt64
    /// Nanoseconds since 1970, for timestamps.
    public var wall: Int64

    public init(monotonic: UInt64, wall: Int64) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// Names a connection of one shard. A stale one is harmless: its generation no longer matches.
public struct ConnectionID: Hashable, Sendable {
    public var index: UInt32
    public var generation: UInt32

    public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// A line for the log, made by the engine and written by the server.
public struct LogRecord: Sendable {
    public enum Level: Int, Sendable, Comparable {
        case debug, info, warning, error
        public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
    }
    public var level: Level
    public var message: String
    public var fields: [(key: String, value: String)]
}

/// What the driver must carry out. The arrays are drained by the driver after each batch of inputs and reused.
public struct Effects {
    /// Connections with output: `gather`, write, `wrote`.
    public var flush: [ConnectionID] = []
    /// Connections to close now; the engine has already forgotten them.
    public var close: [ConnectionID] = []
    /// Connections whose reading is to be paused (`false`) or taken up again (`true`).
    public var reading: [(ConnectionID, Bool)] = []
    /// Messages for other shards, by shard index: to be put in their inboxes as one batch each.
    public var mail: [[Mail]]
    public var log: [LogRecord] = []
}

/// A message from one shard's engine to another's.
public struct Mail: Sendable {
}

public final class Shard {
    public var effects: Effects

    /// - Parameters:
    ///   - index: this shard's place among `count`.
    ///   - seed: randomness for epochs; the only randomness that the engine gets.
    public init(index: Int, count: Int, limits: Limits, seed: UInt64) {
        effects = Effects(mail: Array(repeating: [], count: count))
    }

    // Inputs

    /// A connection was accepted from `peer` (an address as text, "127.0.0.1:50312"). Nil refuses it.
    public func open(peer: String, now: Instant) -> ConnectionID? { nil }

    /// Bytes arrived. They are not kept beyond the call.
    public func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {}

    /// The peer will send nothing more (a FIN).
    public func receiveEnd(on id: ConnectionID, now: Instant) {}

    /// The socket is gone; nothing can be written to it.
    public func lost(_ id: ConnectionID, reason: String, now: Instant) {}

    /// Messages from other shards.
    public func receive(_ mail: [Mail], now: Instant) {}

    /// `deadline` has passed.
    public func fire(now: Instant) {}

    /// Begin to shut down: no new streams, connections told, what is buffered delivered while they read.
    public func drain(now: Instant) {}

    // Effects

    /// When `fire` is to be called at the latest, on the monotonic clock.
    public var deadline: UInt64? { nil }

    /// No connection is left: a draining shard is done.
    public var isIdle: Bool { true }

    /// The bytes to write next, in order, at most as many pieces as `pieces` holds. Valid until the next input.
    /// Returns the number of pieces; 0 when there is nothing to write.
    public func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int { 0 }

    /// `count` of the gathered bytes were taken by the socket. `blocked`: it takes no more until it is writable again;
    /// call `writable` then.
    public func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {}

    /// A socket that was blocked takes bytes again.
    public func writable(_ id: ConnectionID, now: Instant) {}
}
