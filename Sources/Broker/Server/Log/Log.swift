// Log: the broker's structured log, written by all threads to one file descriptor.

import Core
import EventLoop
import Synchronization

/// The log. Any thread may write to it and is never blocked by the reader.
public final class Log: Sendable {
    private let lowest: Atomic<Int>
    private let format: LogFormat
    private let writer: LogWriter

    /// - Parameter descriptor: where lines go; standard error by default.
    public init(
        level: LogRecord.Level = .info, format: LogFormat = .text, descriptor: Int32 = 2
    ) throws(SystemError) {
        lowest = Atomic(level.rawValue)
        self.format = format
        writer = try LogWriter(descriptor: descriptor) { count, error in
            format.line(
                wall: Clock.wall(), level: .warning, message: "log lines dropped",
                fields: [
                    ("count", count), ("reason", error?.description ?? "the log was not read fast enough"),
                ])
        }
    }

    /// Records below this level are discarded. The level may be changed at any time.
    public var level: LogRecord.Level {
        get { LogRecord.Level(rawValue: lowest.load(ordering: .relaxed)) ?? .info }
        set { lowest.store(newValue.rawValue, ordering: .relaxed) }
    }

    /// Lines that were lost because the log was not read fast enough or could not be written.
    public var lost: UInt64 { writer.lost }

    public func isEnabled(_ level: LogRecord.Level) -> Bool { level >= self.level }

    /// Writes a line: a short fixed message and its fields.
    public func write(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        guard isEnabled(level) else { return }
        writer.append(format.line(wall: Clock.wall(), level: level, message: message, fields: fields))
    }

    /// Writes many lines without overrunning the buffer: waits for the log's reader, at most `timeout` nanoseconds in
    /// total. Not for threads that serve clients.
    func write(_ level: LogRecord.Level, all lines: [(message: String, fields: [LogField])], timeout: UInt64) {
        let deadline = Clock.monotonic() + timeout
        for line in lines {
            writer.waitForRoom(until: deadline)
            write(level, line.message, line.fields)
        }
    }

    public func write(_ record: LogRecord) {
        write(record.level, record.message, record.fields)
    }

    /// Waits at most `timeout` nanoseconds until all lines are written; returns false if some are not. Later lines are
    /// lost.
    @discardableResult
    public func close(timeout: UInt64 = 1_000_000_000) -> Bool {
        writer.close(timeout: timeout)
    }
}
