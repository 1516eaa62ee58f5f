// Readiness: reported until it is used up, paused, dead, closed.

import EventLoop
import Glibc
import Testing

struct PollerTests {
    @Test func readinessIsToldUntilItIsUsedUp() throws {
        let pair = try SocketPair()
        var poller = try Poller()
        try poller.add(pair.near, token: 42, interest: .read)
        #expect(try poller.wait(timeout: 0) == 0)

        pair.send("ab")
        for _ in 0..<2 {
            #expect(try poller.wait(timeout: 10_000_000_000) == 1)
            #expect(poller[0].token == 42)
            #expect(poller[0].ready == .readable)
        }
        #expect(pair.receive(1) == "a")
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
        #expect(pair.receive(1) == "b")
        #expect(try poller.wait(timeout: 0) == 0)
    }

    @Test func readingCanBePaused() throws {
        let pair = try SocketPair()
        var poller = try Poller()
        try poller.add(pair.near, token: 1, interest: .read)
        pair.send("x")
        try poller.modify(pair.near, token: 1, interest: [])
        #expect(try poller.wait(timeout: 0) == 0)
        try poller.modify(pair.near, token: 2, interest: .read)
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
        #expect(poller[0].token == 2)
        try poller.remove(pair.near)
        #expect(try poller.wait(timeout: 0) == 0)
    }

    @Test func aPausedDescriptorStillTellsThatItIsDead() throws {
        let pair = try SocketPair()
        var poller = try Poller()
        try poller.add(pair.near, token: 1, interest: [])
        pair.resetFar()
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
        #expect(!poller[0].ready.isDisjoint(with: .dead))
    }

    @Test func aClosedDescriptorIsNoLongerWatched() throws {
        let pair = try SocketPair()
        var poller = try Poller()
        try poller.add(pair.near, token: 1, interest: .read)
        pair.send("x")
        pair.closeNear()
        #expect(try poller.wait(timeout: 0) == 0)
    }

    @Test func aTimeoutIsNeverShort() throws {
        var poller = try Poller()
        let begin = Clock.monotonic()
        #expect(try poller.wait(timeout: 2_000_001) == 0)
        #expect(Clock.monotonic() - begin >= 2_000_001)
    }

    @Test func aBadDescriptorIsAnError() throws {
        let poller = try Poller()
        do throws(SystemError) {
            try poller.add(-1, token: 0, interest: .read)
            Issue.record("no error")
        } catch {
            #expect(error.code == EBADF)
        }
    }

    @Test func moreEventsThanOneWaitHoldsComeInTurn() throws {
        var poller = try Poller()
        let wakeups = try (0..<(Poller.capacity + 10)).map { _ in try Wakeup() }
        for (index, wakeup) in wakeups.enumerated() {
            try poller.add(wakeup.descriptor, token: UInt64(index), interest: .read)
            wakeup.signal()
        }
        var seen: Set<UInt64> = []
        for _ in 0..<2 {
            let count = try poller.wait(timeout: 0)
            #expect(count == Poller.capacity)
            for index in 0..<count { seen.insert(poller[index].token) }
        }
        #expect(seen.count == wakeups.count)
    }
}
