// Poller: epoll. It is level-triggered, so one read of bounded size per turn is enough: the rest is reported again.

import CLinux
import Glibc

/// The readiness to wait for on a file descriptor. Errors and hang-ups are always reported.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let read = Interest(rawValue: UInt32(FB_READABLE))
    public static let write = Interest(rawValue: UInt32(FB_WRITABLE))
    /// The peer's end of stream, even if nothing is read.
    public static let end = Interest(rawValue: UInt32(FB_ENDED))
}

/// What a file descriptor is ready for.
public struct Readiness: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// There are bytes to read, an end of stream, or a connection to accept.
    public static let readable = Readiness(rawValue: UInt32(FB_READABLE))
    public static let writable = Readiness(rawValue: UInt32(FB_WRITABLE))
    /// The peer has sent its end of stream. Reported only if requested.
    public static let ended = Readiness(rawValue: UInt32(FB_ENDED))
    /// Both directions are closed, or there is an error (see `Socket.error`). Reported in every wait, even if not
    /// requested: a descriptor that will not be read must be closed or removed.
    public static let dead = Readiness(rawValue: UInt32(FB_ERROR | FB_HANGUP))
}

/// Waits for file descriptors. Each has a 64-bit token chosen by the caller. With tokens of (generation, index), events
/// that were fetched before their descriptor was closed are harmless.
public struct Poller: ~Copyable {
    /// The most events returned by one `wait`.
    public static let capacity = 256

    private let descriptor: Int32
    private let events: UnsafeMutablePointer<fb_event>

    public init() throws(SystemError) {
        let descriptor = fb_poll_create()
        if descriptor < 0 { throw SystemError("cannot create an epoll instance", code: -descriptor) }
        self.descriptor = descriptor
        self.events = .allocate(capacity: Poller.capacity)
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// Begins to watch `fd`, which the caller still owns; closing it ends the watch.
    public func add(_ fd: Int32, token: UInt64, interest: Interest) throws(SystemError) {
        try change(FB_ADD, fd, token, interest)
    }

    /// Changes the interest in `fd`. With an empty interest only `dead` is reported.
    public func modify(_ fd: Int32, token: UInt64, interest: Interest) throws(SystemError) {
        try change(FB_MODIFY, fd, token, interest)
    }

    /// Ends the watch on `fd`.
    public func remove(_ fd: Int32) throws(SystemError) {
        try change(FB_REMOVE, fd, 0, [])
    }

    /// Waits until something is ready or at least `timeout` nanoseconds (nil: no limit) have passed. Returns the number
    /// of events, which can be read by subscript until the next wait. A signal can end the wait early with 0 events.
    public mutating func wait(timeout: UInt64?) throws(SystemError) -> Int {
        let count = fb_poll_wait(descriptor, events, Int32(Poller.capacity), Poller.milliseconds(timeout))
        if count >= 0 { return Int(count) }
        if count == -EINTR { return 0 }
        throw SystemError("cannot wait for events", code: -count)
    }

    /// Event `index` of the last wait.
    public subscript(index: Int) -> (token: UInt64, ready: Readiness) {
        precondition(index >= 0 && index < Poller.capacity)
        return (events[index].token, Readiness(rawValue: events[index].ready))
    }

    /// Converts nanoseconds to milliseconds, rounded up so that an awaited timer has expired when the wait ends.
    static func milliseconds(_ timeout: UInt64?) -> Int32 {
        guard let timeout else { return -1 }
        let whole = timeout / 1_000_000 + (timeout % 1_000_000 == 0 ? 0 : 1)
        return Int32(min(whole, UInt64(Int32.max)))
    }

    private func change(
        _ operation: Int, _ fd: Int32, _ token: UInt64, _ interest: Interest
    ) throws(SystemError) {
        let result = fb_poll_change(descriptor, Int32(operation), fd, interest.rawValue, token)
        if result < 0 { throw SystemError("cannot watch file descriptor \(fd)", code: -result) }
    }
}
