// Receivers: the subscribers' sockets. In a throughput case, a read takes the bytes off the socket without copying and
// adds their number to a counter; if latencies or the order are needed, it also looks at the first eight bytes of each
// payload. gRPC responses are copied and parsed: each of their messages counts as the bytes of its payload.

import CBench
import EventLoop
import Glibc
import Measure

final class Receivers {
    /// What to do with received bytes.
    enum Reception {
        case count
        /// Compare the bytes with what is expected.
        case compare
        /// The payload begins with the time at which the message was due: record how long ago that is.
        case latency
        /// The payload begins with its number, from 0.
        case order
    }

    let count: Int
    let frame: MessageFrame
    private(set) var sockets: [Int32] = []
    var reception = Reception.count
    var histogram = Histogram()

    /// Bytes received by each subscriber since the last `reset`.
    let received: UnsafeMutablePointer<Int>
    private(set) var reads = 0
    private(set) var bytes = 0
    /// Connections closed by the broker.
    private(set) var ended = 0
    /// Messages whose number was not the expected one.
    private(set) var misplaced = 0

    /// Messages requested at a time; 0 without windows.
    private let window: Int
    /// Bytes received by each subscriber since its last refill.
    private let unrefilled: UnsafeMutablePointer<Int>
    private let walkers: UnsafeMutablePointer<FrameWalker>
    /// Nil if bytes are proportional to messages.
    private let readers: UnsafeMutablePointer<any MessageReader>?
    private let subscriptions: [Subscription]
    private let wire: any Wire
    private let buffer: UnsafeMutableRawBufferPointer
    /// How received bytes differed from what was expected.
    private(set) var complaint: String?

    /// The bytes of one read.
    static let readSize = 1 << 20

    /// Connects all `subscriptions`. Their frames have the same size. With `awaiting`, waits until each is in effect.
    init(
        _ subscriptions: [Subscription], _ wire: any Wire, payload: Int, port: UInt16, awaiting: Bool = true,
        readSize: Int = Receivers.readSize
    ) throws(BenchError) {
        self.subscriptions = subscriptions
        self.wire = wire
        count = subscriptions.count
        frame = wire.delivered(to: subscriptions.first ?? Subscription(), payload: payload)
        window = subscriptions.first?.window ?? 0
        received = .allocate(capacity: max(1, count))
        received.initialize(repeating: 0, count: max(1, count))
        unrefilled = .allocate(capacity: max(1, count))
        unrefilled.initialize(repeating: 0, count: max(1, count))
        walkers = .allocate(capacity: max(1, count))
        walkers.initialize(repeating: FrameWalker(frame, noise: wire.noise), count: max(1, count))
        if let reader = wire.reader(payload: payload) {
            readers = .allocate(capacity: max(1, count))
            readers?.initialize(repeating: reader, count: max(1, count))
        } else {
            readers = nil
        }
        buffer = .allocate(byteCount: readSize, alignment: 16)
        sockets.reserveCapacity(count)
        for subscription in subscriptions {
            let greeting = try wire.subscriber(subscription)
            sockets.append(try Connector.open(port: port, awaiting ? greeting : greeting.unanswered))
        }
    }

    deinit {
        for fd in sockets where fd >= 0 { close(fd) }
        received.deallocate()
        unrefilled.deallocate()
        walkers.deinitialize(count: max(1, count))
        walkers.deallocate()
        readers?.deinitialize(count: max(1, count))
        readers?.deallocate()
        buffer.deallocate()
    }

    /// Receives from one of the sockets with one read.
    func read(_ index: Int) {
        let fd = sockets[index]
        let count: Int
        if reception == .count, readers == nil {
            count = Int(cb_discard(fd, buffer.count))
        } else {
            switch Socket.read(fd, into: buffer) {
            case .bytes(let got): count = got
            case .blocked: count = -Int(EAGAIN)
            case .end, .failed: count = 0
            }
        }
        guard count > 0 else {
            if count != -Int(EAGAIN) { end(index) }
            return
        }
        reads += 1
        let content = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        if let readers {
            return take(content, &readers[index], index)
        } else if reception != .count {
            look(at: content, index)
        }
        add(count, index)
    }

    private func add(_ count: Int, _ index: Int) {
        received[index] += count
        bytes += count
        if window > 0 { refill(index, count) }
    }

    private func take(_ content: UnsafeRawBufferPointer, _ reader: inout any MessageReader, _ index: Int) {
        do throws(BenchError) {
            let now = reception == .latency ? Clock.monotonic() : 0
            let count = try reader.take(content, comparing: reception == .compare) { sent in
                if reception == .latency { histogram.record(now > sent ? now - sent : 0) }
            }
            add(count * frame.size, index)
        } catch {
            complaint = error.description
        }
        guard !reader.replies.isEmpty else { return }
        // Only a few bytes now and then, so the socket has room.
        _ = reader.replies.withUnsafeBytes { Socket.write(sockets[index], $0) }
        reader.clearReplies()
    }

    private func look(at bytes: UnsafeRawBufferPointer, _ index: Int) {
        switch reception {
        case .count: break
        case .compare: compare(bytes, index)
        case .latency:
            let now = Clock.monotonic()
            walkers[index].walk(bytes) { sent, _ in histogram.record(now > sent ? now - sent : 0) }
        case .order:
            walkers[index].walk(bytes) { number, before in
                if number != before { misplaced += 1 }
            }
        }
    }

    /// Compares frames byte by byte; anything between them does not count as received.
    private func compare(_ bytes: UnsafeRawBufferPointer, _ index: Int) {
        let expected = wire.delivered(to: subscriptions[index], payload: frame.payload)
        let (wanted, varying) = (expected.bytes, expected.varying)
        var position = received[index] % frame.size
        var offset = 0
        while offset < bytes.count {
            if position == 0, let noise = wire.noise, bytes[offset] == noise.first {
                offset += noise.count
                received[index] -= noise.count
                continue
            }
            guard bytes[offset] == wanted[position] || varying.contains(where: { $0.contains(position) }) else {
                complaint =
                    "a subscriber received an unexpected message: " + Connector.printable(Array(bytes[offset...]))
                return
            }
            position = (position + 1) % frame.size
            offset += 1
        }
    }

    /// Requests more when half of the window is used.
    private func refill(_ index: Int, _ count: Int) {
        unrefilled[index] += count
        let half = max(1, window / 2)
        let halves = unrefilled[index] / (half * frame.size)
        guard halves > 0, let request = wire.refill(subscriptions[index], halves * half) else { return }
        unrefilled[index] -= halves * half * frame.size
        // A few bytes on a connection that hardly sends anything, so its socket has room.
        _ = request.withUnsafeBytes { Socket.write(sockets[index], $0) }
    }

    private func end(_ index: Int) {
        close(sockets[index])
        sockets[index] = -1
        ended += 1
    }

    /// The fewest messages received by any subscriber in `range` that is still connected.
    func slowest(in range: Range<Int>) -> Int {
        var least = Int.max
        for index in range where received[index] < least { least = received[index] }
        return least == .max ? 0 : least / frame.size
    }

    /// Messages received by all subscribers together.
    var messages: Int {
        var sum = 0
        for index in 0..<count { sum += received[index] / frame.size }
        return sum
    }

    /// Messages that the broker reported as dropped to any subscriber.
    var dropped: Int {
        guard let readers else { return 0 }
        return (0..<count).reduce(0) { $0 + readers[$1].dropped }
    }

    /// Resets the counters, at the boundary of a message.
    func reset() {
        for index in 0..<count { received[index] = 0 }
        reads = 0
        bytes = 0
        histogram.removeAll()
    }
}
