// Wakeup: an eventfd with which one thread ends another's wait.

import CLinux
import Glibc

/// Makes a `Poller` on another thread return.
public final class Wakeup: Sendable {
    /// Add this to the poller, for reading.
    public let descriptor: Int32

    public init() throws(SystemError) {
        descriptor = fb_wakeup_create()
        if descriptor < 0 { throw SystemError("cannot create an eventfd", code: -descriptor) }
    }

    deinit { close(descriptor) }

    /// Makes the descriptor readable. Any thread may call it, any number of times.
    public func signal() {
        // This fails only after 2⁶⁴ − 2 signals, and then the descriptor is readable anyway.
        _ = fb_wakeup_signal(descriptor)
    }

    /// Makes the descriptor unreadable until the next signal.
    public func clear() {
        _ = fb_wakeup_clear(descriptor)
    }
}
