// HTTP1Drivers: the library's instances of one loop. Some of the library's operations iterate over all connections of
// an instance, so each instance has at most `HTTP1Drivers.most`.

import Core
import EventLoop

/// Belongs to the thread of its loop.
final class HTTP1Drivers<Shard: Engine> {
    /// Maximum number of connections of one instance. If all are busy, one pass over them takes a few milliseconds.
    static var most: Int { 64 }

    /// By index. Instances are never removed; their number follows the peak number of connections.
    private(set) var drivers: [HTTP1Driver<Shard>] = []
    /// The instance that last had room.
    private var place = 0
    /// Instances with work to do.
    private var due: [HTTP1Driver<Shard>] = []

    var isDue: Bool { !due.isEmpty }
    /// Maximum number of new connections per turn: one takes far longer than a request on an existing connection.
    static var newcomers: Int { 16 }
    /// Whether so many instances have work that no new connections are adopted.
    var isBusy: Bool { due.count > 1 }
    var count: Int { drivers.reduce(0) { $0 + $1.count } }

    /// An instance with room for a connection; nil if the process cannot open more files.
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

    /// Marks an instance, whose descriptor is readable, as due.
    func wake(_ place: UInt32) { drivers[Int(place)].wake() }

    func add(due driver: HTTP1Driver<Shard>) { due.append(driver) }

    /// Runs instances with work: at least one, and others until the turn is over or the time limit is reached (the
    /// engine's budget does not include the library's own work). The others come first in the next turn.
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
