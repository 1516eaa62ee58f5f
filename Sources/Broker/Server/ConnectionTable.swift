// ConnectionTable: the sockets of one loop, by the engine's ConnectionID. The generation must match that of the entry,
// so that an event that was fetched before its connection was closed finds nothing.

import Core
import TLS

/// A socket and its state.
struct Connection {
    var fd: Int32
    var generation: UInt32
    /// Whether its last write offered more than `OutputQueue.small` bytes.
    var hasBulkOutput = false
    /// Whether a write was blocked, which makes the loop notify the engine by `writable`.
    var blocked = false
    /// Whether the engine accepts no bytes for now.
    var paused = false
    /// Whether the peer has closed its sending side.
    var ended = false
    var kind = Kind.framed
    /// The TLS stream, if any.
    var tls: TLSStream?
    /// For HTTP/1.1: the library's connection that owns the socket, until there is a stream.
    var micro: MicroConnection?
    /// The number of the connection's relay, if any.
    var relay: UInt32?

    enum Kind {
        /// The engine handles the protocol's bytes.
        case framed
        /// HTTP; the first bytes will show the version.
        case undecided
        /// HTTP/1.1, not handed to the library yet.
        case newcomer
        /// HTTP/1.1, handled by the library.
        case http1
        /// TLS handshake; the protocol follows it.
        case handshaking(WireProtocol)
    }
}

/// A slab in raw memory that grows by doubling and never shrinks. The engine's limits bound the indexes.
struct ConnectionTable: ~Copyable {
    private var slots: UnsafeMutablePointer<Connection>
    private var capacity: Int
    /// Number of connections.
    private(set) var count = 0

    private static var free: Connection { Connection(fd: -1, generation: 0) }

    init(capacity: Int = 64) {
        self.capacity = capacity
        slots = .allocate(capacity: capacity)
        slots.initialize(repeating: ConnectionTable.free, count: capacity)
    }

    deinit { slots.deallocate() }

    /// The connection, valid until the next insertion; nil if it has been removed.
    subscript(id: ConnectionID) -> UnsafeMutablePointer<Connection>? {
        guard Int(id.index) < capacity else { return nil }
        let slot = slots + Int(id.index)
        return slot.pointee.fd >= 0 && slot.pointee.generation == id.generation ? slot : nil
    }

    /// Inserts a connection under a free index.
    mutating func insert(_ id: ConnectionID, fd: Int32, kind: Connection.Kind = .framed) {
        if Int(id.index) >= capacity { grow(beyond: Int(id.index)) }
        let slot = slots + Int(id.index)
        precondition(slot.pointee.fd < 0, "the engine assigned index \(id.index) before its connection was closed")
        slot.pointee = Connection(fd: fd, generation: id.generation, kind: kind)
        count += 1
    }

    /// Removes a connection; the caller owns its socket.
    mutating func remove(_ id: ConnectionID) -> Connection? {
        guard let slot = self[id] else { return nil }
        defer { slot.pointee = ConnectionTable.free }
        count -= 1
        return slot.pointee
    }

    /// Removes all connections.
    mutating func removeAll(_ body: (Connection) -> Void) {
        for index in 0..<capacity where slots[index].fd >= 0 {
            body(slots[index])
            slots[index] = ConnectionTable.free
        }
        count = 0
    }

    private mutating func grow(beyond index: Int) {
        var size = capacity
        while size <= index { size *= 2 }
        let larger = UnsafeMutablePointer<Connection>.allocate(capacity: size)
        larger.moveInitialize(from: slots, count: capacity)
        (larger + capacity).initialize(repeating: ConnectionTable.free, count: size - capacity)
        slots.deallocate()
        slots = larger
        capacity = size
    }
}
