// ServiceManager: reports the broker's state to systemd, or to any other service manager that sets NOTIFY_SOCKET
// (sd_notify(3)), and sends the notifications that a watchdog expects:
//
//     starting ──ready──▶ running ──stopping──▶ draining
//                          │    ▲
//                    reloading  ready

import CLinux
import EventLoop
import Glibc

/// Belongs to the main thread. Does nothing without NOTIFY_SOCKET.
struct ServiceManager: ~Copyable {
    private let address: String?
    /// Interval of keepalives; nil if there is no watchdog. A quarter of the watchdog's timeout, so that threads have
    /// time to answer before the next probe.
    private let interval: UInt64?
    private var due: UInt64
    private let log: Log
    private var hasFailed = false

    /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
    ///
    /// - Parameters:
    ///   - process: the id of this process.
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
        // In nanoseconds, at most a year to avoid overflow.
        return max(min(allowed, 31_536_000_000_000) * 1000 / 4, 1_000_000)
    }

    /// Nanoseconds until `beat` is due; nil if never.
    func timeout(now: UInt64 = Clock.monotonic()) -> UInt64? {
        interval.map { _ in due > now ? due - now : 0 }
    }

    /// Sends a keepalive if one is due and `lives` returns true. Otherwise the watchdog's timeout keeps running.
    mutating func beat(now: UInt64 = Clock.monotonic(), lives: () -> Bool) {
        guard let interval, due <= now else { return }
        due = now + interval
        if lives() {
            send("WATCHDOG=1")
        } else {
            log.write(.warning, "thread does not respond", [("waited-ms", interval / 1_000_000)])
        }
    }

    /// Reports that the broker serves, after its start or a reload.
    mutating func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }

    /// Reports that the broker reloads its configuration; `ready` follows.
    mutating func reloading(now: UInt64 = Clock.monotonic()) {
        send("RELOADING=1\nMONOTONIC_USEC=\(now / 1000)\nSTATUS=Reloading the configuration")
    }

    /// Reports that the broker is stopping, which may take `time` nanoseconds.
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
                .warning, "cannot notify the service manager",
                [("NOTIFY_SOCKET", address), ("cause", SystemError.text(of: -result))])
        }
    }
}
