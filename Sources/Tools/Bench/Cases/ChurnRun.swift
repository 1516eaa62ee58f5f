// ChurnRun: how long a bystander's publishes take to be acknowledged, one at a time, next to connections that subscribe
// and cancel as fast as the broker reads. The generator does not sleep and does little work between two checks of the
// bystander, so that it does not affect the measurement.

import EventLoop
import Glibc
import Measure

extension Bench {
    func churn(_ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let churners = try (0..<contender.churners).map { (_) throws(BenchError) in try Churner(port: broker.port) }
            let bystander = try Bystander(port: broker.port)
            try spin(churners, bystander, for: budget.warmUp)
            bystander.histogram.removeAll()
            let before = churners.reduce(0) { $0 + $1.pairs }
            let meter = ResourceMeter(broker)
            try spin(churners, bystander, for: budget.paced)
            var (figure, _, seconds) = meter.figure()
            bystander.giveUp()
            figure.set(bystander.histogram)
            if !churners.isEmpty {
                figure[.pairs] = Double(churners.reduce(0) { $0 + $1.pairs } - before) / seconds
            }
            return figure
        }
    }

    private func spin(_ churners: [Churner], _ bystander: Bystander, for time: UInt64) throws(BenchError) {
        let end = Clock.monotonic() + time
        var next = 0
        while Clock.monotonic() < end {
            try bystander.advance()
            guard !churners.isEmpty else { continue }
            try churners[next].advance()
            next = (next + 1) % churners.count
        }
    }
}

/// A connection that repeatedly subscribes and cancels. Nothing is published on its topic, so it receives nothing.
final class Churner {
    private var sent = 0
    private let fd: Int32
    private var position = 0
    private var answer = [UInt8](repeating: 0, count: 512)

    /// Bytes of a REQUEST_STREAM and a CANCEL.
    private let pair: Int
    /// The requests that are written at a time, which takes a few microseconds.
    private let copies: [UInt8]

    init(port: UInt16) throws(BenchError) {
        let bytes = try RSocketWire.churn(topic: "t")
        pair = bytes.count
        copies = [[UInt8]](repeating: bytes, count: 128).flatMap { $0 }
        fd = try Connector.open(port: port, RSocketWire().connection())
    }

    deinit { close(fd) }

    /// How many pairs were sent.
    var pairs: Int { sent / pair }

    /// Writes what the socket accepts, and checks that nothing has arrived.
    func advance() throws(BenchError) {
        switch copies[position...].withUnsafeBytes({ Socket.write(fd, $0) }) {
        case .bytes(let count):
            sent += count
            position = (position + count) % copies.count
        case .blocked: break
        case .failed(let error): throw BenchError("a churning connection broke: \(SystemError.text(of: error))")
        }
        switch answer.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
        case .blocked: break
        case .bytes(let count):
            throw BenchError("a subscription was refused: \(Connector.printable(Array(answer[..<count])))")
        case .end, .failed: throw BenchError("the broker disconnected a churning connection")
        }
    }
}

/// A connection with one acknowledged publish at a time.
final class Bystander {
    var histogram = Histogram()
    private let fd: Int32
    private let publish: [UInt8]
    private var reader = AcknowledgementReader(.rsocket)
    private var stream: UInt32 = 1
    /// When the unanswered publish was sent.
    private var sent: UInt64?
    private let buffer: UnsafeMutableRawBufferPointer

    init(port: UInt16) throws(BenchError) {
        publish = try RSocketWire.acknowledged(topic: "bystander", payload: 16).bytes
        fd = try Connector.open(port: port, RSocketWire().connection())
        buffer = .allocate(byteCount: 4096, alignment: 16)
    }

    deinit {
        close(fd)
        buffer.deallocate()
    }

    /// Sends the next publish, or checks for the response to the previous one.
    func advance() throws(BenchError) {
        guard let since = sent else { return try send() }
        switch Socket.read(fd, into: buffer) {
        case .bytes(let count):
            guard try reader.take(UnsafeRawBufferPointer(rebasing: buffer[..<count])) > 0 else { return }
            histogram.record(Clock.monotonic() - since)
            sent = nil
        case .blocked: break
        case .end, .failed: throw BenchError("the broker disconnected the measured publisher")
        }
    }

    /// Records an unanswered publish with the time it has taken so far.
    func giveUp() {
        if let sent { histogram.record(Clock.monotonic() - sent) }
    }

    private func send() throws(BenchError) {
        var bytes = publish
        bytes.withUnsafeMutableBytes {
            $0.storeBytes(of: stream.bigEndian, toByteOffset: RSocketWire.streamOffset, as: UInt32.self)
        }
        stream = stream > 0x7fff_fff0 ? 1 : stream + 2
        sent = Clock.monotonic()
        try Connector.send(bytes, on: fd)
    }
}
