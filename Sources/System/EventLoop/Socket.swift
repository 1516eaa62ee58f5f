// Socket: TCP sockets as plain file descriptors, all non-blocking and close-on-exec. The caller that gets a socket
// closes it.

import CLinux
import Glibc

/// The result of a read.
public enum ReadResult: Equatable, Sendable {
    case bytes(Int)
    /// The peer will send nothing more.
    case end
    /// Nothing is available yet.
    case blocked
    /// The connection is gone; the value is an `errno`.
    case failed(Int32)
}

/// The result of a write.
public enum WriteResult: Equatable, Sendable {
    /// The socket took this many bytes, possibly fewer than given.
    case bytes(Int)
    /// The socket takes no bytes at present.
    case blocked
    /// The connection is gone; the value is an `errno`.
    case failed(Int32)
}

public enum Socket {
    /// Maximum number of connections that the kernel queues until they are accepted.
    public static let backlog: Int32 = 1024
    /// The size of the kernel's send buffer (it doubles the value for its own bookkeeping), and the number of unsent
    /// bytes at which it counts as full. They are small so that a KEEPALIVE response does not queue after megabytes of
    /// data.
    public static let sendBuffer = 256 << 10
    public static let unsentLimit = 64 << 10

    /// A listening socket on `address`; port 0 picks a free one (see `localAddress`).
    public static func listen(on address: SocketAddress) throws(SystemError) -> Int32 {
        let attempt = "cannot listen on \(address)"
        let fd = try open(address, attempt)
        do throws(SystemError) {
            try check(fb_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1), attempt)
            if address.isIPv6 { try check(fb_set_option(fd, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1), attempt) }
            try withUnsafePointer(to: address.storage) { (storage) throws(SystemError) in
                try check(fb_bind(fd, storage, address.length), attempt)
            }
            if Glibc.listen(fd, backlog) < 0 { throw SystemError(attempt, code: errno) }
        } catch {
            close(fd)
            throw error
        }
        return fd
    }

    /// The next connection waiting on `listener`; nil if there is none. Errors of the listener or the process (EMFILE,
    /// ENFILE, ENOBUFS, ENOMEM) would be thrown again at once, so pause before the next attempt.
    public static func accept(_ listener: Int32) throws(SystemError) -> (fd: Int32, peer: SocketAddress)? {
        while true {
            var peer = SocketAddress()
            let fd = fb_accept(listener, &peer.storage, &peer.length)
            if fd >= 0 { return (fd, peer) }
            switch -fd {
            case EAGAIN: return nil
            case EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
                ENETUNREACH:
                // The waiting connection is gone already; the next one is unaffected.
                continue
            default: throw SystemError("cannot accept connections", code: -fd)
            }
        }
    }

    /// A connected pair of sockets, whose kernel buffers hold about `buffer` bytes in each direction; nil if the
    /// process may not open more files.
    public static func pair(buffer: Int32) -> (Int32, Int32)? {
        var ends: [Int32] = [-1, -1]
        let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
        if socketpair(AF_UNIX, Int32(kind), 0, &ends) < 0 { return nil }
        for end in ends { _ = fb_set_option(end, SOL_SOCKET, SO_SNDBUF, buffer) }
        return (ends[0], ends[1])
    }

    /// Configures a broker's connection: no delay for small writes, small kernel buffers, and an end to connections
    /// whose peer has not acknowledged anything for `userTimeout` milliseconds. To the kernel, that includes a peer
    /// that keeps its window closed, so the time must be longer than a subscriber may go without reading.
    public static func configure(_ fd: Int32, userTimeout: Int32) {
        // None of these can fail on a TCP socket; on others (a test's pair) they have no meaning.
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, Int32(unsentLimit))
        _ = fb_set_option(fd, SOL_SOCKET, SO_SNDBUF, Int32(sendBuffer))
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, userTimeout)
    }

    /// Seconds of silence after which the kernel probes the peer of a `keepAlive` socket, and seconds between probes.
    public static let keepAliveIdle: Int32 = 60
    public static let keepAliveInterval: Int32 = 20

    /// Makes the kernel detect a peer that disappeared without closing: one that does not respond for the socket's
    /// configured `userTimeout`.
    public static func keepAlive(_ fd: Int32) {
        _ = fb_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_KEEPIDLE, keepAliveIdle)
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_KEEPINTVL, keepAliveInterval)
    }

    /// Connects to the first address of `endpoint` that responds within `timeout` nanoseconds in total, which does not
    /// include resolving a name. Blocks. The socket has no delay for small writes.
    public static func connect(to endpoint: Endpoint, timeout: UInt64) throws(SystemError) -> Int32 {
        let addresses = try endpoint.resolve()
        let deadline = Clock.monotonic() + min(timeout, 1 << 62)
        var last = SystemError("cannot connect to \(endpoint)", cause: "it has no address")
        for address in addresses {
            do throws(SystemError) {
                return try connect(to: address, of: endpoint, deadline: deadline)
            } catch {
                last = error
            }
        }
        throw last
    }

    private static func connect(
        to address: SocketAddress, of endpoint: Endpoint, deadline: UInt64
    ) throws(SystemError) -> Int32 {
        let attempt = "cannot connect to \(endpoint)"
        let fd = try open(address, attempt)
        do throws(SystemError) {
            let result = withUnsafePointer(to: address.storage) { fb_connect(fd, $0, address.length) }
            if result != -EINPROGRESS { try check(result, attempt) }
            if !waitWritable(fd, until: deadline) { throw SystemError(attempt, code: ETIMEDOUT) }
            try check(fb_socket_error(fd), attempt)
        } catch {
            close(fd)
            throw error
        }
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        return fd
    }

    private static func waitWritable(_ fd: Int32, until deadline: UInt64) -> Bool {
        while true {
            let now = Clock.monotonic()
            let timeout = Poller.milliseconds(deadline > now ? deadline - now : 0)
            var request = pollfd(fd: fd, events: Int16(POLLOUT), revents: 0)
            let count = poll(&request, 1, timeout)
            if count > 0 { return true }
            if count == 0 || errno != EINTR { return false }
        }
    }

    /// Reads what is available, at most `buffer.count` bytes (more than 0).
    public static func read(_ fd: Int32, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        while true {
            let count = fb_read(fd, buffer.baseAddress, buffer.count)
            if count != -Int(EINTR) { return result(count) }
        }
    }

    /// Like `read`, but does not consume the bytes.
    public static func peek(_ fd: Int32, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        while true {
            let count = fb_peek(fd, buffer.baseAddress, buffer.count)
            if count != -Int(EINTR) { return result(count) }
        }
    }

    /// Discards up to 16 KiB of received bytes: closing a socket with unread bytes resets its connection, which may
    /// lose the last bytes written.
    public static func discard(_ fd: Int32) {
        withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { _ = read(fd, into: $0) }
    }

    private static func result(_ count: Int) -> ReadResult {
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        return count == -Int(EAGAIN) ? .blocked : .failed(Int32(-count))
    }

    /// Makes a poller report bytes only once there are `count` of them, or the peer's end of stream.
    public static func waitForBytes(_ count: Int32, on fd: Int32) {
        _ = fb_set_option(fd, SOL_SOCKET, SO_RCVLOWAT, count)
    }

    /// Another descriptor of the same socket; nil if the process may not open more.
    public static func duplicate(_ fd: Int32) -> Int32? {
        let copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)
        return copy < 0 ? nil : copy
    }

    /// Makes `fd` a duplicate of `other`, and closes what `fd` referred to.
    public static func replace(_ fd: Int32, by other: Int32) {
        // This can fail only for an invalid descriptor.
        _ = fb_replace(fd, other)
    }

    /// Makes the kernel send small writes at once.
    public static func noDelay(_ fd: Int32) {
        _ = fb_set_option(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// Writes `pieces` in order with one system call, at most 64 of them. Never raises SIGPIPE.
    public static func write(_ fd: Int32, _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) -> WriteResult {
        withUnsafeTemporaryAllocation(of: iovec.self, capacity: piecesLimit) { vectors in
            let count = min(pieces.count, piecesLimit)
            for index in 0..<count {
                vectors[index].iov_base = UnsafeMutableRawPointer(mutating: pieces[index].baseAddress)
                vectors[index].iov_len = pieces[index].count
            }
            while true {
                let written = fb_send(fd, vectors.baseAddress, count)
                if written >= 0 { return .bytes(written) }
                if written == -Int(EAGAIN) { return .blocked }
                if written != -Int(EINTR) { return .failed(Int32(-written)) }
            }
        }
    }

    /// The most pieces that one `write` takes.
    public static let piecesLimit = 64

    public static func write(_ fd: Int32, _ bytes: UnsafeRawBufferPointer) -> WriteResult {
        withUnsafePointer(to: bytes) { write(fd, UnsafeBufferPointer(start: $0, count: 1)) }
    }

    /// Closes both directions. Waiters on the socket are notified, and what was written is still sent.
    public static func shutdown(_ fd: Int32) {
        _ = Glibc.shutdown(fd, Int32(SHUT_RDWR))
    }

    /// Makes readers see an end of stream after the bytes already received.
    public static func shutdownRead(_ fd: Int32) {
        _ = Glibc.shutdown(fd, Int32(SHUT_RD))
    }

    /// Sends an end of stream after the bytes already written; reading continues.
    public static func shutdownWrite(_ fd: Int32) {
        _ = Glibc.shutdown(fd, Int32(SHUT_WR))
    }

    /// Whether both directions are closed; there may still be bytes to read.
    public static func hasHungUp(_ fd: Int32) -> Bool {
        var state = pollfd(fd: fd, events: 0, revents: 0)
        return poll(&state, 1, 0) == 1 && Int32(state.revents) & POLLHUP != 0
    }

    /// The error of a dead socket, as an `errno`; 0 for none. Reading the error clears it.
    public static func error(_ fd: Int32) -> Int32 {
        -fb_socket_error(fd)
    }

    public static func localAddress(_ fd: Int32) -> SocketAddress? { name(fd, peer: 0) }

    public static func peerAddress(_ fd: Int32) -> SocketAddress? { name(fd, peer: 1) }

    private static func name(_ fd: Int32, peer: Int32) -> SocketAddress? {
        var address = SocketAddress()
        return fb_name(fd, peer, &address.storage, &address.length) < 0 ? nil : address
    }

    private static func open(_ address: SocketAddress, _ attempt: String) throws(SystemError) -> Int32 {
        let fd = fb_socket(address.family)
        try check(fd, attempt)
        return fd
    }

    private static func check(_ result: Int32, _ attempt: String) throws(SystemError) {
        if result < 0 { throw SystemError(attempt, code: -result) }
    }
}
