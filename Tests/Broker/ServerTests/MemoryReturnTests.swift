// When unused memory is returned to the system.

import EventLoop
import Glibc
import Testing

@testable import Server

@Suite struct MemoryReturnTests {
    private static let mib = 1 << 20

    /// A process that holds `resident` bytes of memory, `free` of which can be returned.
    private final class Process {
        var resident: Int
        var free: Int

        init(_ resident: Int, free: Int) { (self.resident, self.free) = (resident * mib, free * mib) }

        func look(_ this: inout MemoryReturn, now: UInt64, used: Int = 0) -> Int? {
            this.look(now: now, used: used * mib, resident: { resident }) { (resident, free) = (resident - free, 0) }
                .map { $0 / mib }
        }
    }

    @Test func whatIsMostOfTheProcessGoesBack() {
        let second = MemoryReturn.interval
        // In MiB: the memory that is resident, free and used by messages, and the amount returned.
        let cases: [(resident: Int, free: Int, used: Int, returned: Int?)] = [
            (236, 216, 0, 216), (64, 50, 0, 50), (63, 50, 0, nil), (400, 180, 200, 180), (400, 180, 201, nil),
            (63, 0, 100, nil), (2000, 900, 1100, nil),
        ]
        for (resident, free, used, returned) in cases {
            var this = MemoryReturn(now: 0)
            #expect(Process(resident, free: free).look(&this, now: second, used: used) == returned)
        }
    }

    @Test func isLookedAtNowAndThenAndLessOftenWhereNothingGoesBack() {
        var (this, now) = (MemoryReturn(now: 7), UInt64(7))
        let process = Process(300, free: 0)
        for pause in [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] {
            #expect(this.timeout(now: now) == UInt64(pause) * 1_000_000_000)
            now += UInt64(pause) * 1_000_000_000
            #expect(process.look(&this, now: now - 1) == nil && this.timeout(now: now) == 0)
            #expect(process.look(&this, now: now) == 0)
        }
        now += MemoryReturn.longestPause
        process.free = 100 * MemoryReturnTests.mib
        #expect(process.look(&this, now: now) == 100 && this.timeout(now: now) == MemoryReturn.interval)
        // Growth that is not caused by the memory's owner.
        process.resident += 1
        #expect(process.look(&this, now: now + MemoryReturn.interval) == 0)
    }

    /// The C library's own case: most of what was freed lies below an allocation in use.
    @Test func freeAllocationsGoBack() {
        let (count, size) = (4000, 64 << 10)
        let pieces = (0..<count).map { _ in
            let piece = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
            memset(piece, 1, size)
            return piece
        }
        let last = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        for piece in pieces { piece.deallocate() }
        let before = Machine.residentMemory
        Machine.returnFreeMemory()
        #expect(Machine.residentMemory < before - count * size / 2)
        last.deallocate()
    }
}
