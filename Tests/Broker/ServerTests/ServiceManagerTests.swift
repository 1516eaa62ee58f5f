// Notifications to the service manager, and their times, over a socket that the test provides.
// Tests/EndToEnd/test_service.py has the rest.

import EventLoop
import Glibc
import Testing

@testable import Server

struct ServiceManagerTests {
    @Test(
        arguments: [
            (nil, nil, nil), ("0", nil, nil), ("x", nil, nil), ("4000000", nil, 1_000_000_000),
            ("4000000", "7", 1_000_000_000), ("4000000", "8", nil), ("1", nil, 1_000_000),
            ("18446744073709551615", nil, 7_884_000_000_000_000),
        ] as [(String?, String?, UInt64?)])
    func aSignOfLifeIsDueFourTimesAsOftenAsTheWatchdogWants(_ usec: String?, _ pid: String?, _ interval: UInt64?) {
        let variables = ["WATCHDOG_USEC": usec, "WATCHDOG_PID": pid]
        #expect(ServiceManager.interval(process: 7) { variables[$0] ?? nil } == interval)
    }

    @Test func nobodyIsToldWhereNobodyAsks() throws {
        let log = try silentLog()
        var manager = ServiceManager(log: log, process: 7, now: 0) { ["WATCHDOG_USEC": "1000"][$0] }
        #expect(manager.timeout(now: .max) == nil)
        manager.ready("x")
        var asked = 0
        manager.beat(now: .max) {
            asked += 1
            return true
        }
        #expect(asked == 0)
        log.close()
    }

    @Test func signsOfLifeComeInTimeAndNotWithoutLife() throws {
        let log = try silentLog()
        let name = "@forebay-test-\(getpid())-\(try Machine.random())"
        let listener = try Datagrams(name)
        let variables = ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "4000000"]
        var manager = ServiceManager(log: log, process: 7, now: 5) { variables[$0] }
        let second: UInt64 = 1_000_000_000
        #expect(manager.timeout(now: 5) == second && manager.timeout(now: 5 + 2 * second) == 0)
        manager.beat(now: second) { true }
        #expect(listener.next() == nil)
        manager.beat(now: 5 + second) { true }
        #expect(listener.next() == "WATCHDOG=1")
        manager.beat(now: 5 + 2 * second) { false }
        #expect(listener.next() == nil)
        manager.beat(now: 5 + 3 * second) { true }
        #expect(listener.next() == "WATCHDOG=1")
        manager.ready("here")
        #expect(listener.next() == "READY=1\nSTATUS=here")
        manager.reloading(now: 7_000)
        #expect(listener.next() == "RELOADING=1\nMONOTONIC_USEC=7\nSTATUS=Reloading the configuration")
        manager.stopping("soon", within: second)
        #expect(listener.next() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000\nSTATUS=soon")
        log.close()
    }

    @Test(arguments: [nil, Endpoint(host: "127.0.0.1", port: 0)])
    func aPulseIsSteadyWhenEveryThreadHasAnswered(admin: Endpoint?) throws {
        let log = try silentLog()
        var configuration = Server.Configuration(listen: Endpoint(host: "127.0.0.1", port: 0), threads: 3)
        configuration.admin = admin
        let server = try Server(configuration, log: log)
        for _ in 0..<20 {
            let deadline = Clock.monotonic() + patience
            while !server.hasPulse() { #expect(Clock.monotonic() < deadline) }
        }
        server.stop()
        #expect(server.wait())
        // No thread is left: a query now is never answered.
        _ = server.hasPulse()
        #expect(!server.hasPulse())
        log.close()
    }
}

/// A socket that receives notifications, with an abstract name.
private final class Datagrams {
    private let socket: Int32

    init(_ name: String) throws {
        socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = UInt16(AF_UNIX)
        let bytes = [0] + Array(name.utf8.dropFirst())
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path)! + bytes.count)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, length) }
        }
        #expect(result == 0)
    }

    deinit { close(socket) }

    /// The next notification, if there is one.
    func next() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(socket, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }
}
