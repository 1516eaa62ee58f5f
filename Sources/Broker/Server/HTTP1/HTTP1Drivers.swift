// HTTP1Drivers: the library's instances of one loop. Some of what the library does goes over all connections of an
// instance: each has no more than `HTTP1Drivers.most`, so that nobody pays for more than that of others.

import Core
import EventLoop

/// Belongs to the thread of its loop.
final class HTTP1Drivers<Shard: Engine> {
    /// Connections of one instance. To go over those that each have something to do takes some milliseconds.
    static var most: Int { 64 }

    /// By place. None is given up: there are no more than the most connections at a time have needed.
    private(set) var drivers: [HTTP1Driver<Shard>] = []
    /// Where there was room last.
    private var place = 0
    /// Those that have something to do.
    private var due: [HTTP1Driver<Shard>] = []

    var isDue: Bool { !due.isEmpty }
    /// New connections of a turn: one takes far longer than another one's next request.
    static var newcomers: Int { 16 }
    /// So many have something to do that no more connections are to come meanwhile.
    var isBusy: Bool { due.count > 1 }
    var count: Int { drivers.reduce(0) { $0 + $1.count } }

    /// One with room for a connection; nil when the process may have no more files.
    func withRoom(_ loop: ShardLoop<Shard>, _ shard: Shard) -> HTTP1Driver<Shard>? {
        func hasRoom(_ driver: HTTP1Driver<Shard>) -> Bool { driver.count < HTTP1Drivers.most }
        if place < drivers.count, hasRoom(drivers[place]) { return drivers[place] }
        if let other = drivers.firstIndex(where: hasRoom) {
            place = other
            return drivers[other]
        }
        guard let driver = HTTP1Driver(loop: loop, shard: shard) else { return nil }
        do throws(SystemError) {
            let token = Token.micro(UInt32(drivers.count))
            try loop.poller.add(driver.descriptor, token: token.rawValue, interest: .read)
        } catch {
            driver.stop()
            return nil
        }
        place = drivers.count
        drivers.append(driver)
        return driver
    }

    /// The descriptor of one is readable.
    func wake(_ place: UInt32) { drivers[Int(place)].wake() }

    func add(due driver: HTTP1Driver<Shard>) { due.append(driver) }

    /// Has those run that have something to do: one of them, and others until the turn is over, or this has taken as
    /// long as it may: what the library itself does is no work of the engine's. The rest come first in the next turn.
    func runDue(_ isTurnOver: () -> Bool) {
        let end = Clock.monotonic() + Limits.http1Quantum
        var listed: [HTTP1Driver<Shard>] = []
        swap(&listed, &due)
        var ran = 0
        repeat {
            listed[ran].runListed()
            ran += 1
        } while ran < listed.count && !isTurnOver() && Clock.monotonic() < end
        due = listed[ran...] + due
    }

    func stop() {
        for driver in drivers { driver.stop() }
    }
}
