// Log: the broker's structured log, from every thread to one file descriptor.

import Core
import EventLoop
import Synchronization

/// The log. Any thread may write to it, and is never blocked by who reads it.
public final class Log: Sendable {
    private let lowest: Atomic<Int>
    private let format: LogFormat
    private let writer: LogWriter

    /// - Parameter descriptor: where lines go; standard error unless told otherwise.
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

    /// Records below this are not made into lines. It may be changed at any time.
    public var level: LogRecord.Level {
        get { LogRecord.Level(rawValue: lowest.load(ordering: .relaxed)) ?? .info }
        set { lowest.store(newValue.rawValue, ordering: .relaxed) }
    }

    /// Lines that were lost, as the log was not read fast enough or could not be written.
    public var lost: UInt64 { writer.lost }

    public func isEnabled(_ level: LogRecord.Level) -> Bool { level >= self.level }

    /// Writes a line: what happened, in a few fixed words, and its particulars.
    public func write(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        guard isEnabled(level) else { return }
        writer.append(format.line(wall: Clock.wall(), level: level, message: message, fields: fields))
    }

    /// Writes lines of which none is to be lost for there being many: waits for whoever reads the log, `timeout`
    /// nanoseconds in all. Not for threads that serve.
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

    /// Waits until what was written has gone out, at most `timeout` nanoseconds; false when it has not. Lines written
    /// later are lost.
    @discardableResult
    public func close(timeout: UInt64 = 1_000_000_000) -> Bool {
        writer.close(timeout: timeout)
    }
}
