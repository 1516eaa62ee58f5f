// Signals, threads, clocks, and information about the machine.

import EventLoop
import Glibc
import Testing

/// A result that a thread passes to the test that joins it.
private final class Result: @unchecked Sendable {
    var first: Int32?
    var second: Int32?
    var woken = 0
    var name = ""
}

struct SignalsTests {
    @Test func aSignalIsReadFromTheDescriptor() throws {
        let result = Result()
        // On a separate thread, because signals stay blocked in the thread that made the source.
        let thread = try NamedThread.start("signals") {
            guard let signals = try? Signals([SIGUSR1]), var poller = try? Poller() else { return }
            try? poller.add(signals.descriptor, token: 1, interest: .read)
            pthread_kill(pthread_self(), SIGUSR1)
            result.woken = (try? poller.wait(timeout: 10_000_000_000)) ?? 0
            result.first = signals.next()
            result.second = signals.next()
        }
        thread.join()
        #expect(result.woken == 1)
        #expect(result.first == SIGUSR1)
        #expect(result.second == nil)
    }

    @Test func aThreadCarriesItsNameCutTo15Bytes() throws {
        let result = Result()
        try NamedThread.start("forebay-of-many-letters") {
            result.name = Machine.text(ofFile: "/proc/thread-self/comm") ?? ""
        }.join()
        #expect(result.name == "forebay-of-many\n")
    }
}

struct MachineTests {
    @Test func tellsWhatTheMachineHas() throws {
        #expect(Machine.cpuCount >= 1)
        #expect(Machine.memory > 64 << 20)
        #expect(try Machine.random() != Machine.random())
        #expect(Machine.text(ofFile: "/proc/self/comm")?.isEmpty == false)
        #expect(Machine.text(ofFile: "/no/such/file") == nil)
        #expect(Machine.text(ofFile: "/proc/cpuinfo", limit: 10)?.utf8.count == 10)
    }

    @Test func theMonotonicClockDoesNotStepBackAndTheWallClockIsToday() {
        let first = Clock.monotonic()
        #expect(Clock.monotonic() >= first)
        #expect(Clock.wall() > 1_700_000_000_000_000_000)
    }
}
