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

/// Lines that wait to be written. A mutex is sufficient because log lines are rare.
private final class LogBuffer: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var dropped = 0
        var allLost: UInt64 = 0
        var closed = false
        var finished = false
    }
    private let state = Monitor(State())

    /// Changes the state, and wakes the threads that wait for that.
    private func change(_ body: (inout State) -> Void) {
        state.with(body)
        state.signalAll()
    }

    func append(_ line: String) {
        change { state in
            if state.closed { return }
            // Once a line is dropped, so are later ones until the loss is reported. The report is thus where the gap
            // is.
            if state.dropped > 0 || state.bytes.count + line.utf8.count > LogWriter.limit {
                state.dropped += 1
                return
            }
            state.bytes.append(contentsOf: line.utf8)
        }
    }

    var lost: UInt64 { state.with { $0.allLost + UInt64($0.dropped) } }

    func note(lost lines: Int) { state.with { $0.allLost += UInt64(lines) } }

    /// Waits for bytes; returns nil if the buffer is closed and empty.
    func take() -> (bytes: [UInt8], dropped: Int)? {
        let taken = state.wait { state, _ -> (bytes: [UInt8], dropped: Int)?? in
            if state.bytes.isEmpty, state.dropped == 0 { return state.closed ? .some(nil) : nil }
            defer {
                state.bytes = []
                state.dropped = 0
            }
            return (state.bytes, state.dropped)
        }
        state.signalAll()
        return taken
    }

    func close() { change { $0.closed = true } }
    func finish() { change { $0.finished = true } }

    func waitFinished(timeout: UInt64) -> Bool {
        wait(until: Clock.monotonic() + min(timeout, 1 << 62)) { $0.finished }
    }

    func waitForRoom(until deadline: UInt64) {
        wait(until: deadline) { $0.bytes.count <= LogWriter.limit / 2 || $0.closed }
    }

    @discardableResult
    private func wait(until end: UInt64, for isSo: (State) -> Bool) -> Bool {
        state.wait { state, deadline in
            if isSo(state) { return true }
            deadline = end
            return Clock.monotonic() >= end ? false : nil
        }
    }
}
