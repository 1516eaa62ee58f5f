// ServiceManager: what systemd, or whoever else started the broker and set NOTIFY_SOCKET, is told of its life
// (sd_notify(3)), and the keepalive that a watchdog wants:
//
//     starting ──ready──▶ running ──stopping──▶ draining
//                          │    ▲
//                    reloading  ready

import CLinux
import EventLoop
import Glibc

/// Belongs to the main thread. Does nothing when nobody wants to be told.
struct ServiceManager: ~Copyable {
    private let address: String?
    /// How often a keepalive is due; nil if never. A quarter of what the watchdog allows, so that an answer may take
    /// some time, and yet comes before the next question.
    private let interval: UInt64?
    private var due: UInt64
    private let log: Log
    private var hasFailed = false

    /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
    ///
    /// - Parameters:
    ///   - process: this one.
    ///   - variable: the value of an environment variable.
    init(log: Log, process: Int32 = getpid(), now: UInt64 = Clock.monotonic(), variable: (String) -> String?) {
        self.log = log
        address = variable("NOTIFY_SOCKET")
        interval = address == nil ? nil : ServiceManager.interval(process: process, variable)
        due = now &+ (interval ?? 0)
    }

    init(log: Log) {
        self.init(log: log) { name in getenv(name).map { String(cString: $0) } }
    }

    static func interval(process: Int32, _ variable: (String) -> String?) -> UInt64? {
        guard let text = variable("WATCHDOG_USEC"), let allowed = UInt64(text), allowed > 0 else { return nil }
        if let pid = variable("WATCHDOG_PID"), Int32(pid) != process { return nil }
        // In nanoseconds; a year is as good as any longer time.
        return max(min(allowed, 31_536_000_000_000) * 1000 / 4, 1_000_000)
    }

    /// Nanoseconds until `beat` is to be called; nil for never.
    func timeout(now: UInt64 = Clock.monotonic()) -> UInt64? {
        interval.map { _ in due > now ? due - now : 0 }
    }

    /// Tells that the broker lives, if that is due and `lives` says so. Otherwise the watchdog's time runs on.
    mutating func beat(now: UInt64 = Clock.monotonic(), lives: () -> Bool) {
        guard let interval, due <= now else { return }
        due = now + interval
        if lives() {
            send("WATCHDOG=1")
        } else {
            log.write(.warning, "a thread does not answer", [("waited-ms", interval / 1_000_000)])
        }
    }

    /// It serves, for the first time or again.
    mutating func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }

    /// It takes up its configuration anew; `ready` follows.
    mutating func reloading(now: UInt64 = Clock.monotonic()) {
        send("RELOADING=1\nMONOTONIC_USEC=\(now / 1000)\nSTATUS=Reloading the configuration")
    }

    /// It is about to end, which may take `time` nanoseconds.
    mutating func stopping(_ status: String, within time: UInt64) {
        send("STOPPING=1\nEXTEND_TIMEOUT_USEC=\(time / 1000)\nSTATUS=\(status)")
    }

    private mutating func send(_ text: String) {
        guard let address else { return }
        var text = text
        let result = text.withUTF8 { fb_send_datagram(address, $0.baseAddress, $0.count) }
        if result < 0, !hasFailed {
            hasFailed = true
            log.write(
                .warning, "cannot tell the service manager",
                [("NOTIFY_SOCKET", address), ("cause", SystemError.text(of: -result))])
        }
    }
}
