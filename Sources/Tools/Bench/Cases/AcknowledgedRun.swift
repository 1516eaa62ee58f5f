// AcknowledgedRun: publishes acknowledged one by one, a fixed number of them in flight. RSocket answers a
// REQUEST_RESPONSE; NATS acknowledges a message once its stream has stored it; Redis answers XADD.

import Bytes
import EventLoop
import Glibc
import Measure

extension Bench {
    func run(_ acknowledged: Acknowledged, _ contender: Contender) throws(BenchError) -> Figure {
        if contender.system == .lmdb { return try commits(payload: acknowledged.payload, contender) }
        let inFlight = acknowledged.inFlight
        return try withBroker(contender) { (broker) throws(BenchError) in
            let publisher = try AcknowledgedPublisher(acknowledged, contender, port: broker.port)
            let receivers = try Receivers(
                acknowledged.hasSubscriber ? [Subscription()] : [], contender.system.wire,
                payload: acknowledged.payload, port: broker.port)
            let load = try Load(receivers, [])
            try publisher.run(load, inFlight: inFlight, for: budget.warmUp) { false }
            try publisher.runUntilAcknowledged(load, inFlight: inFlight)
            publisher.histogram.removeAll()
            let meter = ResourceMeter(broker)
            let before = publisher.acknowledged
            let received = (bytes: receivers.bytes, reads: receivers.reads)
            var check = Clock.monotonic()
            // A broker that waits for the disk uses little CPU time.
            let limit = contender.storage == nil ? budget.wall : budget.paced
            try publisher.run(load, inFlight: inFlight, for: limit) {
                let now = Clock.monotonic()
                if now < check { return false }
                check = now + 50_000_000
                return meter.brokerCPU >= budget.cpu
            }
            try publisher.runUntilAcknowledged(load, inFlight: inFlight)
            var (figure, cpu, seconds) = meter.figure()
            let count = Double(publisher.acknowledged - before)
            figure[.cpuPerAcknowledgement] = cpu / count
            figure[.acknowledgementsPerCPUSecond] = count / cpu * 1e9
            figure[.acknowledgementsPerSecond] = count / seconds
            figure.set(publisher.histogram)
            if acknowledged.hasSubscriber {
                let deliveries = Double(receivers.bytes - received.bytes) / Double(receivers.frame.size)
                figure[.deliveriesPerSecond] = deliveries / seconds
                figure[.batch] = deliveries / Double(max(1, receivers.reads - received.reads))
            }
            try publisher.run(load, inFlight: 0, for: 5_000_000_000) {
                publisher.acknowledged == publisher.sent
                    && (!acknowledged.hasSubscriber || receivers.messages >= publisher.sent)
            }
            figure[.lost] = Double(
                max(0, publisher.sent - (acknowledged.hasSubscriber ? receivers.messages : publisher.acknowledged)))
            return figure
        }
    }
}

/// A connection that keeps a number of acknowledged publishes in flight.
final class AcknowledgedPublisher {
    /// How long a broker may take to acknowledge a publish, in nanoseconds.
    private static let patience: UInt64 = 10_000_000_000

    /// How many messages to send.
    var most = Int.max
    private(set) var sent = 0
    private(set) var acknowledged = 0
    /// How long publishes took to be acknowledged. Empty with several topics, whose acknowledgements have no order.
    var histogram = Histogram()
    private let fd: Int32
    /// A publish to each topic.
    private let frames: [[UInt8]]
    private let dialect: AcknowledgementReader.Dialect
    private var reader: AcknowledgementReader
    private var out = ByteBuffer()
    private var nextStream: UInt32 = 1
    /// When each publish in flight was sent, by its number modulo the size.
    private var times: [UInt64]
    private let buffer: UnsafeMutableRawBufferPointer

    init(_ acknowledged: Acknowledged, _ contender: Contender, port: UInt16) throws(BenchError) {
        let topics = (0..<acknowledged.topics).map { contender.system.wire.name($0) }
        let payload = acknowledged.payload
        let greeting: Greeting
        var frames: [[UInt8]] = []
        switch contender.system {
        case .nats:
            dialect = .nats
            for topic in topics {
                close(try Connector.open(port: port, NATSWire.stream(of: topic, isStored: contender.storage != nil)))
            }
            greeting = NATSWire.acknowledgedPublisher()
            frames = topics.map { NATSWire.acknowledged(topic: $0, payload: payload).bytes }
        case .redis:
            dialect = .redis
            greeting = RedisWire.acknowledgedPublisher()
            frames = topics.map { RedisWire.acknowledged(topic: $0, payload: payload).bytes }
        default:
            precondition(contender.system == .forebay, "Other systems do not acknowledge publishes.")
            dialect = .rsocket
            greeting = RSocketWire().connection()
            for topic in topics { frames.append(try RSocketWire.acknowledged(topic: topic, payload: payload).bytes) }
        }
        self.frames = frames
        times = [UInt64](repeating: 0, count: acknowledged.inFlight)
        reader = AcknowledgementReader(dialect)
        fd = try Connector.open(port: port, greeting)
        buffer = .allocate(byteCount: 64 << 10, alignment: 16)
    }

    deinit {
        close(fd)
        buffer.deallocate()
    }

    /// Publishes while fewer than `inFlight` are unanswered, and reads acknowledgements and the subscriber's messages,
    /// until `done`. Sleeps only if there is no subscriber, so that the CPU is free for what a sync does in the kernel.
    func run(_ load: Load, inFlight: Int, for limit: UInt64, until done: () -> Bool) throws(BenchError) {
        let deadline = Clock.monotonic() + limit
        while !done(), Clock.monotonic() < deadline {
            let goal = min(most, acknowledged + inFlight)
            if sent < goal {
                let now = Clock.monotonic()
                while sent < goal { compose(now) }
            }
            try flush()
            try load.turn(timeout: 0)
            if load.receivers.count == 0 { wait() }
            try read()
        }
    }

    /// Continues to the next acknowledgement. A measurement begins and ends there, because brokers may acknowledge
    /// everything in flight at once, seconds apart.
    func runUntilAcknowledged(_ load: Load, inFlight: Int) throws(BenchError) {
        let before = acknowledged
        try run(load, inFlight: inFlight, for: AcknowledgedPublisher.patience) { acknowledged > before }
        guard acknowledged > before else { throw BenchError("no publish was acknowledged") }
    }

    private func wait() {
        var request = pollfd(fd: fd, events: Int16(out.isEmpty ? POLLIN : POLLIN | POLLOUT), revents: 0)
        poll(&request, 1, 10)
    }

    private func compose(_ now: UInt64) {
        let frame = frames[sent % frames.count]
        let target = out.reserve(frame.count)
        target.copyMemory(from: frame, byteCount: frame.count)
        if dialect == .rsocket {
            target.storeBytes(of: nextStream.bigEndian, toByteOffset: RSocketWire.streamOffset, as: UInt32.self)
            nextStream = nextStream > 0x7fff_fff0 ? 1 : nextStream + 2
        }
        out.commit(frame.count)
        times[sent % times.count] = now
        sent += 1
    }

    private func flush() throws(BenchError) {
        guard !out.isEmpty else { return }
        switch Socket.write(fd, out.readable) {
        case .bytes(let count): out.consume(count)
        case .blocked: break
        case .failed(let error): throw BenchError("the publisher's connection broke: \(SystemError.text(of: error))")
        }
    }

    private func read() throws(BenchError) {
        switch Socket.read(fd, into: buffer) {
        case .bytes(let count):
            let count = try reader.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            if frames.count == 1 { record(count) }
            acknowledged += count
        case .blocked: break
        case .end: throw BenchError("the broker disconnected the publisher")
        case .failed(let error): throw BenchError("the publisher's connection broke: \(SystemError.text(of: error))")
        }
    }

    /// Acknowledgements of a topic arrive in the order of its publishes.
    private func record(_ count: Int) {
        let now = Clock.monotonic()
        for number in acknowledged..<(acknowledged + count) { histogram.record(now - times[number % times.count]) }
    }
}
