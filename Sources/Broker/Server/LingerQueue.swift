// LingerQueue: sockets that the engine has closed, whose peer may still be sending. Closing such a socket would make
// the kernel reset the connection, and a reset can take the error away that the peer has not read yet. So their end is
// sent, what comes is thrown away until the peer's end comes too, and only then, or when their time is over, they are
// closed.

import EventLoop
import Glibc
import TLS

/// First in, first out by time: every socket lingers equally long. Numbers count up and name one socket each.
struct LingerQueue {
    /// Sockets that may linger at once; one more closes the oldest.
    static let limit = 1024
    private let limit: Int

    /// -1 for one that is closed.
    private var sockets: [(fd: Int32, tls: TLSStream?, deadline: UInt64)] = []
    /// How many at the front of `sockets` are gone.
    private var head = 0
    private var headNumber: UInt32 = 0
    /// Sockets that linger.
    private(set) var count = 0

    init(limit: Int = LingerQueue.limit) { self.limit = limit }

    /// When the oldest socket's time is over, on the monotonic clock.
    var deadline: UInt64? { head < sockets.count ? sockets[head].deadline : nil }

    /// Takes a socket over and returns its number.
    /// - Parameter tls: has a record to end before the socket's end is sent.
    mutating func append(_ fd: Int32, tls: TLSStream? = nil, deadline: UInt64) -> UInt32 {
        if count == limit { closeOldest() }
        sockets.append((fd, tls, deadline))
        count += 1
        return headNumber &+ UInt32(sockets.count - head - 1)
    }

    /// The socket of that number; nil when it is closed.
    func socket(_ number: UInt32) -> Int32? {
        let index = head + Int(number &- headNumber)
        guard index < sockets.count, sockets[index].fd >= 0 else { return nil }
        return sockets[index].fd
    }

    /// What has to end a record on it first; nil when its end is on its way.
    func stream(_ number: UInt32) -> TLSStream? {
        socket(number) == nil ? nil : sockets[head + Int(number &- headNumber)].tls
    }

    /// The socket's end is on its way.
    mutating func forgetStream(_ number: UInt32) {
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

    /// Closes the sockets whose time is over.
    mutating func expire(now: UInt64) {
        while let deadline, deadline <= now { closeOldest() }
    }

    mutating func closeAll() {
        while count > 0 { closeOldest() }
    }

    /// False when there is none.
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

    /// Keeps an open socket at the head, and gives the front back once it is the larger part.
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
