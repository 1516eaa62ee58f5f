// ConnectionTable: the sockets of one loop, found by the engine's ConnectionID. The generation that an entry was made
// with must match, so that an event that was fetched before its connection closed finds nothing.

import Core
import TLS

/// One socket and what is waited for on it.
struct Connection {
    var fd: Int32
    var generation: UInt32
    /// A write was blocked and `writable` is owed to the engine.
    var blocked = false
    /// The engine wants no bytes for now.
    var paused = false
    /// The peer has sent its end.
    var ended = false
    var kind = Kind.framed
    /// What it reads and writes by, if not in the clear.
    var tls: TLSStream?
    /// Over HTTP/1.1: whom its socket belongs to, until it has a stream.
    var micro: MicroConnection?
    /// The number of the relay before it, if it has one.
    var relay: UInt32?

    enum Kind {
        /// The engine has the protocol's bytes.
        case framed
        /// Over HTTP, in a version that its first bytes will tell.
        case undecided
        /// Over HTTP/1.1; the library is yet to be given it.
        case newcomer
        /// Over HTTP/1.1.
        case http1
        /// TLS comes first; the wireProtocol is what it will speak.
        case handshaking(WireProtocol)
    }
}

/// A slab over raw memory that grows by doubling and never shrinks; the engine's own limits bound the indexes.
struct ConnectionTable: ~Copyable {
    private var slots: UnsafeMutablePointer<Connection>
    private var capacity: Int
    /// Connections held.
    private(set) var count = 0

    private static var free: Connection { Connection(fd: -1, generation: 0) }

    init(capacity: Int = 64) {
        self.capacity = capacity
        slots = .allocate(capacity: capacity)
        slots.initialize(repeating: ConnectionTable.free, count: capacity)
    }

    deinit { slots.deallocate() }

    /// The connection's place, valid until the next insertion; nil when it is gone.
    subscript(id: ConnectionID) -> UnsafeMutablePointer<Connection>? {
        guard Int(id.index) < capacity else { return nil }
        let slot = slots + Int(id.index)
        return slot.pointee.fd >= 0 && slot.pointee.generation == id.generation ? slot : nil
    }

    /// Enters a connection under an index that is free.
    mutating func insert(_ id: ConnectionID, fd: Int32, kind: Connection.Kind = .framed) {
        if Int(id.index) >= capacity { grow(beyond: Int(id.index)) }
        let slot = slots + Int(id.index)
        precondition(slot.pointee.fd < 0, "the engine gave out index \(id.index) before it closed its connection")
        slot.pointee = Connection(fd: fd, generation: id.generation, kind: kind)
        count += 1
    }

    /// Takes a connection out; its socket is the caller's again.
    mutating func remove(_ id: ConnectionID) -> Connection? {
        guard let slot = self[id] else { return nil }
        defer { slot.pointee = ConnectionTable.free }
        count -= 1
        return slot.pointee
    }

    /// Takes every connection out.
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
