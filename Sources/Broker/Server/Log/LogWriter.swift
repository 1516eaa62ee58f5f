// LogWriter: a separate thread between the broker and the log's descriptor, so that a stalled reader or a full disk
// stops only the log. Lost lines are counted, and reported as soon as lines can be written again.

import EventLoop
import Glibc

/// Writes lines to a file descriptor, in the background and in order.
final class LogWriter: Sendable {
    /// Maximum number of bytes that wait for the descriptor.
    static let limit = 256 << 10

    private let state: LogBuffer

    /// - Parameter dropped: makes the line that reports how many lines were dropped, and the write error if any.
    init(descriptor: Int32, dropped: @escaping @Sendable (Int, SystemError?) -> String) throws(SystemError) {
        let state = LogBuffer()
        self.state = state
        let thread = try NamedThread.start("forebay-log") {
            var output = LogOutput(descriptor: descriptor, dropped: dropped)
            while let (bytes, lost) = state.take() { state.note(lost: output.write(bytes, lost: lost)) }
            state.finish()
        }
        // The thread may hang in a write forever, so it is never joined.
        thread.detach()
    }

    /// Queues a line. Never blocks on the descriptor.
    func append(_ line: String) {
        state.append(line)
    }

    /// Lines that were lost.
    var lost: UInt64 { state.lost }

    /// Waits until the buffer is at most half full, or until `deadline` on the monotonic clock.
    func waitForRoom(until deadline: UInt64) { state.waitForRoom(until: deadline) }

    /// Accepts no more lines, and waits until everything is written or `timeout` nanoseconds have passed. The
    /// descriptor may be closed only if this returned true.
    @discardableResult
    func close(timeout: UInt64) -> Bool {
        state.close()
        return state.waitFinished(timeout: timeout)
    }
}

/// The descriptor. Lines lost in failed writes are reported ahead of the next lines that are written, for example when
/// a full disk has space again.
private struct LogOutput {
    let descriptor: Int32
    let dropped: @Sendable (Int, SystemError?) -> String
    /// Lines lost in failed writes since the last successful one, and the error.
    private var failed = 0
    private var cause: SystemError?
    /// Whether the last write ended in the middle of a line.
    private var isTorn = false

    init(descriptor: Int32, dropped: @escaping @Sendable (Int, SystemError?) -> String) {
        self.descriptor = descriptor
        self.dropped = dropped
    }

    /// - Parameter lost: how many lines after `lines` did not fit into the buffer.
    /// - Returns: the number of lines lost now, including `lost`.
    mutating func write(_ lines: [UInt8], lost: Int) -> Int {
        var bytes: [UInt8] = []
        if failed > 0 { bytes = Array(((isTorn ? "\n" : "") + dropped(failed, cause)).utf8) }
        let begin = bytes.count
        bytes += lines
        let end = bytes.count
        if lost > 0 { bytes += dropped(lost, nil).utf8 }
        let written = writeAll(bytes)
        if written >= begin { failed = 0 }
        if written > 0 { isTorn = bytes[written - 1] != UInt8(ascii: "\n") }
        if written == bytes.count { return lost }
        // A partially written line counts as lost.
        let missing = bytes[min(max(written, begin), end)..<end].count { $0 == UInt8(ascii: "\n") }
        failed += missing + lost
        return missing + lost
    }

    /// Returns how many of the bytes were written.
    private mutating func writeAll(_ bytes: [UInt8]) -> Int {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, rest.base.baseAddress! + rest.startIndex, rest.count)
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count < 0, errno == EAGAIN {
                    // Another process that shares the descriptor has made it non-blocking.
                    var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&request, 1, -1)
                } else if count < 0, errno != EINTR {
                    cause = SystemError("the log could not be written", code: errno)
                    break
                }
            }
            return rest.startIndex
        }
    }
}

/// Lines that wait to be written. A mutex is sufficient because log lines are rare, and the thread sanitizer
/// understands pthread mutexes. Unchecked because the mutex guards every field.
private final class LogBuffer: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var bytes: [UInt8] = []
    private var dropped = 0
    private var allLost: UInt64 = 0
    private var closed = false
    private var finished = false

    init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(mutex)
        changed.deallocate()
        mutex.deallocate()
    }

    private func locked<R>(_ body: () -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body()
    }

    func append(_ line: String) {
        locked {
            if closed { return }
            // Once a line is dropped, so are later ones until the loss is reported. The report is thus where the gap
            // is.
            if dropped > 0 || bytes.count + line.utf8.count > LogWriter.limit {
                dropped += 1
                return
            }
            bytes.append(contentsOf: line.utf8)
            pthread_cond_broadcast(changed)
        }
    }

    var lost: UInt64 { locked { allLost + UInt64(dropped) } }

    func note(lost lines: Int) { locked { allLost += UInt64(lines) } }

    /// Waits for bytes; returns nil if the buffer is closed and empty.
    func take() -> (bytes: [UInt8], dropped: Int)? {
        locked {
            while bytes.isEmpty, dropped == 0, !closed { pthread_cond_wait(changed, mutex) }
            if bytes.isEmpty, dropped == 0 { return nil }
            defer {
                bytes = []
                dropped = 0
                pthread_cond_broadcast(changed)
            }
            return (bytes, dropped)
        }
    }

    func close() {
        locked {
            closed = true
            pthread_cond_broadcast(changed)
        }
    }

    func finish() {
        locked {
            finished = true
            pthread_cond_broadcast(changed)
        }
    }

    func waitFinished(timeout: UInt64) -> Bool {
        wait(until: Clock.monotonic() + min(timeout, 1 << 62)) { finished }
    }

    func waitForRoom(until deadline: UInt64) {
        wait(until: deadline) { bytes.count <= LogWriter.limit / 2 || closed }
    }

    @discardableResult
    private func wait(until deadline: UInt64, for isSo: () -> Bool) -> Bool {
        var time = timespec()
        time.tv_sec = time_t(deadline / 1_000_000_000)
        time.tv_nsec = Int(deadline % 1_000_000_000)
        return locked {
            while !isSo(), pthread_cond_timedwait(changed, mutex, &time) == 0 {}
            return isSo()
        }
    }
}
