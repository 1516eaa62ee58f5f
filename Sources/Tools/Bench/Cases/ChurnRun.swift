// ChurnRun: how long a bystander's publishes take to be acknowledged, one at a time, beside connections that subscribe
// and cancel as fast as the broker reads. The generator does not sleep, and does little between two looks at the
// bystander, so that it is no part of what is measured.

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
            let meter = Meter(broker)
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

/// A connection that subscribes and cancels, again and again. Nothing is published there, so nothing is answered.
final class Churner {
    private var sent = 0
    private let fd: Int32
    private var position = 0
    private var answer = [UInt8](repeating: 0, count: 512)

    /// Bytes of a REQUEST_STREAM and a CANCEL.
    private let pair: Int
    /// As many as are written at a time, which takes some microseconds.
    private let copies: [UInt8]

    init(port: UInt16) throws(BenchError) {
        let bytes = try RSocketWire.churn(topic: "t")
        pair = bytes.count
        copies = [[UInt8]](repeating: bytes, count: 128).flatMap { $0 }
        fd = try Connector.open(port: port, RSocketWire().connection())
    }

    deinit { close(fd) }

    /// Sent so far.
    var pairs: Int { sent / pair }

    /// Writes what the socket takes, and sees that there is nothing to read.
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
    /// When the publish that is not answered yet was sent.
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

    /// Sends the next publish, or looks for the answer to the one before.
    func advance() throws(BenchError) {
        guard let since = sent else { return try send() }
        switch Socket.read(fd, into: buffer) {
        case .bytes(let count):
            guard try reader.take(UnsafeRawBufferPointer(rebasing: buffer[..<count])) > 0 else { return }
            histogram.record(Clock.monotonic() - since)
            sent = nil
        case .blocked: break
        case .end, .failed: throw BenchError("the broker disconnected the bystander")
        }
    }

    /// A publish that is not answered yet has taken as long at least.
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
