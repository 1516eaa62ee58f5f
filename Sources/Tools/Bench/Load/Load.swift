// Load: the single event loop of the generator, for publishers and subscribers of any protocol. One turn:
//
//     wait → one read per ready socket → publish what the rule allows, one write at a time until the socket is full
//
// The rule is the same for every system: no publisher is more than `lag` messages ahead of the slowest subscriber of
// its topic. This keeps systems without flow control from disconnecting subscribers or losing messages, and gives all
// systems the same room for batching.

import CBench
import EventLoop
import Glibc

/// The publisher of a topic, and which receivers subscribe to it.
struct Lane {
    var publisher: Publisher
    var receivers: Range<Int>
    /// If different from that of the load.
    var pace: Load.Pace?
}

final class Load {
    /// How publishers send.
    enum Pace {
        case silent
        /// This many messages, without waiting for receivers.
        case probe(count: Int)
        /// As fast as `lag` allows: at most that many messages ahead of the receivers.
        case full(lag: Int)
        /// Like `full`, but each message carries the time at which it is sent.
        case stamped(lag: Int)
        /// A message every `interval` nanoseconds from `start`, carrying the time at which it is due.
        case open(start: UInt64, interval: Double)
        /// `count` messages that carry their numbers, starting with `first`, without waiting for receivers.
        case numbered(first: UInt64, count: Int)
    }

    let receivers: Receivers
    var lanes: [Lane]
    var pace = Pace.silent
    /// A load whose latencies are measured: it takes a turn after each read of this one.
    var urgent: Load?
    private var poller: Poller
    private let buffer: UnsafeMutableRawBufferPointer
    private static let publisherToken: UInt64 = 1 << 32

    init(_ receivers: Receivers, _ lanes: [Lane]) throws(BenchError) {
        self.receivers = receivers
        self.lanes = lanes
        do throws(SystemError) {
            poller = try Poller()
            for (index, fd) in receivers.sockets.enumerated() {
                try poller.add(fd, token: UInt64(index), interest: .read)
            }
            for (index, lane) in lanes.enumerated() {
                try poller.add(lane.publisher.fd, token: Load.publisherToken + UInt64(index), interest: .read)
            }
        } catch {
            throw BenchError(error.description)
        }
        buffer = .allocate(byteCount: 64 << 10, alignment: 16)
    }

    deinit { buffer.deallocate() }

    /// Messages published in all lanes since the last `reset`.
    var published: Int { lanes.reduce(0) { $0 + $1.publisher.published } }

    /// Messages that were published but not received, over all subscribers.
    var missing: Int {
        var sum = 0
        for lane in lanes {
            for index in lane.receivers {
                sum += lane.publisher.published - receivers.received[index] / receivers.frame.size
            }
        }
        return sum
    }

    /// Runs one turn of the loop. Waits for at most `timeout` nanoseconds; with 0 it does not sleep.
    func turn(timeout: UInt64) throws(BenchError) {
        for event in 0..<(try wait(timeout)) {
            let (token, ready) = poller[event]
            if token < Load.publisherToken {
                receivers.read(Int(token))
                try urgent?.turn(timeout: 0)
            } else {
                try serve(Int(token - Load.publisherToken), ready)
            }
        }
        for index in lanes.indices { try publish(index) }
        try urgent?.turn(timeout: 0)
        if let complaint = receivers.complaint { throw BenchError(complaint) }
        if receivers.ended > 0 { throw BenchError("the broker disconnected \(receivers.ended) subscribers") }
    }

    private func wait(_ timeout: UInt64) throws(BenchError) -> Int {
        do throws(SystemError) {
            return try poller.wait(timeout: timeout)
        } catch {
            throw BenchError(error.description)
        }
    }

    private func serve(_ index: Int, _ ready: Readiness) throws(BenchError) {
        let publisher = lanes[index].publisher
        if ready.contains(.writable), publisher.isBlocked {
            publisher.unblock()
            try watch(index)
        }
        if !ready.isDisjoint(with: [.readable, .dead]) { try publisher.read(buffer) }
    }

    private func publish(_ index: Int) throws(BenchError) {
        let publisher = lanes[index].publisher
        guard !publisher.isBlocked else { return }
        switch lanes[index].pace ?? pace {
        case .silent: break
        case .probe(let count): try publisher.send(upTo: count)
        case .full(let lag):
            try publisher.send(upTo: receivers.slowest(in: lanes[index].receivers) + lag)
        case .stamped(let lag):
            let goal = receivers.slowest(in: lanes[index].receivers) + lag
            while publisher.published < goal, publisher.room > 0 { publisher.compose(Clock.monotonic()) }
        case .open(let start, let interval):
            let now = Clock.monotonic()
            while publisher.room > 0 {
                let due = start + UInt64(Double(publisher.published) * interval)
                guard due <= now else { break }
                publisher.compose(due)
            }
        case .numbered(let first, let count):
            var left = min(count - publisher.published, publisher.room, 1024)
            while left > 0 {
                publisher.compose(first + UInt64(publisher.published))
                left -= 1
            }
        }
        try publisher.flush()
        if publisher.isBlocked { try watch(index) }
    }

    private func watch(_ index: Int) throws(BenchError) {
        let publisher = lanes[index].publisher
        do throws(SystemError) {
            try poller.modify(
                publisher.fd, token: Load.publisherToken + UInt64(index),
                interest: publisher.isBlocked ? [.read, .write] : .read)
        } catch {
            throw BenchError(error.description)
        }
    }

    /// Runs the loop until `done`, for at most `limit` nanoseconds; returns whether `done` was reached.
    func run(for limit: UInt64, until done: () -> Bool) throws(BenchError) -> Bool {
        let deadline = Clock.monotonic() + limit
        while !done() {
            if Clock.monotonic() >= deadline { return false }
            try turn(timeout: 1_000_000)
        }
        return true
    }

    func reset() {
        receivers.reset()
        for lane in lanes { lane.publisher.reset() }
    }
}
