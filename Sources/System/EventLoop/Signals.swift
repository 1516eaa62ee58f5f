// Signals: process signals as events to poll for, instead of handlers that can interrupt anything.

import CLinux
import Glibc

/// Receives signals through a file descriptor. Create it before the first thread is started, so that every thread has
/// the signals blocked.
public struct Signals: ~Copyable {
    /// Add this to the poller, for reading.
    public let descriptor: Int32

    public init(_ signals: [Int32]) throws(SystemError) {
        descriptor = fb_signals_create(signals, Int32(signals.count))
        if descriptor < 0 { throw SystemError("cannot watch for signals", code: -descriptor) }
    }

    deinit { close(descriptor) }

    /// The number of the next pending signal; nil if there is none.
    public func next() -> Int32? {
        let signal = fb_signals_next(descriptor)
        return signal > 0 ? signal : nil
    }

    /// Makes a write to a pipe without a reader fail instead of ending the process.
    public static func ignoreBrokenPipe() {
        _ = fb_ignore_broken_pipe()
    }
}
