// LingerQueue: sockets that the engine has closed while their peers may still be sending. Closing such a socket would
// make the kernel reset the connection, and a reset can discard an error that the peer has not read yet. So only the
// sending side is closed, and input is discarded until the peer closes its side as well or the time limit expires. Then
// the socket is closed.

import EventLoop
import Glibc
import TLS

/// A FIFO queue: every socket lingers for the same time. Each socket has a number; numbers are consecutive.
struct LingerQueue {
    /// Maximum number of lingering sockets; beyond it, the oldest is closed.
    static let limit = 1024
    private let limit: Int

    /// `fd` is -1 if the socket has been closed.
    private var sockets: [(fd: Int32, tls: TLSStream?, deadline: UInt64)] = []
    /// How many entries at the front of `sockets` are closed.
    private var head = 0
    private var headNumber: UInt32 = 0
    /// Number of lingering sockets.
    private(set) var count = 0

    init(limit: Int = LingerQueue.limit) { self.limit = limit }

    /// When the oldest socket expires, on the monotonic clock.
    var deadline: UInt64? { head < sockets.count ? sockets[head].deadline : nil }

    /// Takes ownership of a socket and returns its number.
    /// - Parameter tls: a stream that must finish a record before the sending side is closed.
    mutating func append(_ fd: Int32, tls: TLSStream? = nil, deadline: UInt64) -> UInt32 {
        if count == limit { closeOldest() }
        sockets.append((fd, tls, deadline))
        count += 1
        return headNumber &+ UInt32(sockets.count - head - 1)
    }

    /// The socket with this number; nil if it has been closed.
    func socket(_ number: UInt32) -> Int32? {
        let index = head + Int(number &- headNumber)
        guard index < sockets.count, sockets[index].fd >= 0 else { return nil }
        return sockets[index].fd
    }

    /// The stream that must finish a record first; nil once the sending side is closed.
    func stream(_ number: UInt32) -> TLSStream? {
        socket(number) == nil ? nil : sockets[head + Int(number &- headNumber)].tls
    }

    /// Removes the stream of a socket whose sending side has been closed.
    mutating func removeStream(_ number: UInt32) {
        if socket(number) != nil { sockets[head + Int(number &- headNumber)].tls = nil }
    }

    mutating func close(_ number: UInt32) {
        guard let fd = socket(number) else { return }
        Glibc.close(fd)
        sockets[head + Int(number &- headNumber)].fd = -1
        sockets[head + Int(number &- headNumber)].tls = nil
        count -= 1
        trim()
    }

    /// Closes expired sockets.
    mutating func expire(now: UInt64) {
        while let deadline, deadline <= now { closeOldest() }
    }

    mutating func closeAll() {
        while count > 0 { closeOldest() }
    }

    /// Closes the oldest socket. Returns false if there is none.
    @discardableResult
    mutating func closeOldest() -> Bool {
        guard count > 0 else { return false }
        Socket.discard(sockets[head].fd)
        Glibc.close(sockets[head].fd)
        sockets[head].fd = -1
        sockets[head].tls = nil
        count -= 1
        trim()
        return true
    }

    /// Moves the head to the first open socket, and removes the closed entries before it once there are many.
    private mutating func trim() {
        while head < sockets.count, sockets[head].fd < 0 {
            head += 1
            headNumber &+= 1
        }
        if head == sockets.count || head > limit {
            sockets.removeFirst(head)
            head = 0
        }
    }
}
