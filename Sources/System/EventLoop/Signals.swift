// Signals: process signals as something to poll for, instead of handlers that may interrupt anything.

import CLinux
import Glibc

/// Takes signals through a file descriptor. Make it before the first thread is started, so that every thread has the
/// signals blocked.
public struct Signals: ~Copyable {
    /// What to add to the poller, for reading.
    public let descriptor: Int32

    public init(_ signals: [Int32]) throws(SystemError) {
        descriptor = fb_signals_create(signals, Int32(signals.count))
        if descriptor < 0 { throw SystemError("cannot watch for signals", code: -descriptor) }
    }

    deinit { close(descriptor) }

    /// The number of the next signal that came; nil when there is none.
    public func next() -> Int32? {
        let signal = fb_signals_next(descriptor)
        return signal > 0 ? signal : nil
    }

    /// A write to a pipe whose reader is gone fails, instead of ending the process.
    public static func ignoreBrokenPipe() {
        _ = fb_ignore_broken_pipe()
    }
}
