// A change of the machine's clock is reported once, with its size; elapsed time is not a change.

import Core
import Testing

@testable import Server

@Suite struct ClockWatchTests {
    private let second: UInt64 = 1_000_000_000

    @Test func aClockThatIsSetIsToldOnce() {
        var watch = ClockWatch(Instant(monotonic: 0, wall: 500))
        func look(_ monotonic: Double, wall: Double) -> Int64? {
            watch.look(Instant(monotonic: UInt64(monotonic * 1e9), wall: Int64(wall * 1e9)))
        }
        #expect(watch.timeout(now: 0) == second)
        #expect(look(0.5, wall: 4000) == nil, "it is not due yet")
        #expect(look(1, wall: 3601).map { $0 / 1_000_000_000 } == 3599)
        #expect(look(2, wall: 3602) == nil)
        #expect(look(60, wall: 3660.9) == nil)
        #expect(look(61, wall: 61).map { $0 / 1_000_000_000 } == -3600)
        #expect(look(62, wall: 62) == nil)
    }
}
