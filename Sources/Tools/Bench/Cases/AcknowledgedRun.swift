// AcknowledgedRun: publishes acknowledged one by one, a fixed number of them in flight, with one plain subscriber.
// RSocket answers a REQUEST_RESPONSE; NATS acknowledges a message once its in-memory stream has stored it.

import Bytes
import EventLoop
import Glibc

extension Bench {
    func acknowledged(inFlight: Int, payload: Int, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let publisher = try AcknowledgedPublisher(contender.system, payload: payload, port: broker.port)
            let receivers = try Receivers(
                [Subscription()], contender.system.wire, payload: payload, port: broker.port)
            let load = try Load(receivers, [])
            try publisher.run(load, inFlight: inFlight, for: budget.warmUp) { false }
            let meter = ResourceMeter(broker)
            let before = publisher.acknowledged
            let received = (bytes: receivers.bytes, reads: receivers.reads)
            var check = Clock.monotonic()
            try publisher.run(load, inFlight: inFlight, for: budget.wall) {
                let now = Clock.monotonic()
                if now < check { return false }
                check = now + 50_000_000
                return meter.brokerCPU >= budget.cpu
            }
            var (figure, cpu, seconds) = meter.figure()
            let count = Double(publisher.acknowledged - before)
            figure[.cpuPerAcknowledgement] = cpu / count
            figure[.acknowledgementsPerCPUSecond] = count / cpu * 1e9
            figure[.rate] = count / seconds
            let deliveries = Double(receivers.bytes - received.bytes) / Double(receivers.frame.size)
            figure[.deliveriesPerSecond] = deliveries / seconds
            figure[.batch] = deliveries / Double(max(1, receivers.reads - received.reads))
            try publisher.run(load, inFlight: 0, for: 5_000_000_000) {
                publisher.acknowledged == publisher.sent && receivers.messages >= publisher.sent
            }
            figure[.lost] = Double(max(0, publisher.sent - receivers.messages))
            return figure
        }
    }
}

/// A connection that keeps a number of acknowledged publishes in flight.
final class AcknowledgedPublisher {
    private(set) var sent = 0
    private(set) var acknowledged = 0
    private let fd: Int32
    private let frame: [UInt8]
    private let isRSocket: Bool
    private var reader: AcknowledgementReader
    private var out = ByteBuffer()
    private var nextStream: UInt32 = 1
    private let buffer: UnsafeMutableRawBufferPointer

    init(_ system: System, payload: Int, port: UInt16) throws(BenchError) {
        isRSocket = system == .forebay
        reader = AcknowledgementReader(isRSocket ? .rsocket : .nats)
        let topic = system.wire.name(0)
        let greeting: Greeting
        if isRSocket {
            var setup = ByteBuffer()
            RSocketWire().setup(&setup)
            greeting = Greeting(Array(setup.readable))
            frame = try RSocketWire.acknowledged(topic: topic, payload: payload).bytes
        } else {
            greeting = NATSWire.stream(of: topic)
            frame = NATSWire.acknowledged(topic: topic, payload: payload).bytes
        }
        fd = try Connector.open(port: port, greeting)
        buffer = .allocate(byteCount: 64 << 10, alignment: 16)
    }

    deinit {
        close(fd)
        buffer.deallocate()
    }

    /// Publishes while fewer than `inFlight` are unanswered, and reads acknowledgements and the subscriber's messages,
    /// until `done`.
    func run(_ load: Load, inFlight: Int, for limit: UInt64, until done: () -> Bool) throws(BenchError) {
        let deadline = Clock.monotonic() + limit
        while !done(), Clock.monotonic() < deadline {
            while sent - acknowledged < inFlight { compose() }
            try flush()
            try load.turn(timeout: 0)
            try read()
        }
    }

    private func compose() {
        let target = out.reserve(frame.count)
        target.copyMemory(from: frame, byteCount: frame.count)
        if isRSocket {
            target.storeBytes(of: nextStream.bigEndian, toByteOffset: RSocketWire.streamOffset, as: UInt32.self)
            nextStream = nextStream > 0x7fff_fff0 ? 1 : nextStream + 2
        }
        out.commit(frame.count)
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
            acknowledged += try reader.take(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        case .blocked: break
        case .end: throw BenchError("the broker disconnected the publisher")
        case .failed(let error): throw BenchError("the publisher's connection broke: \(SystemError.text(of: error))")
        }
    }
}
