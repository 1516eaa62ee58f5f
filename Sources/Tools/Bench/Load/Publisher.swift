// Publisher: one publisher's socket. At full speed it sends from memory filled with copies of its frame; if messages
// carry a time or number, each is composed. With brokers that grant credit, it never sends more than they have granted.

import Bytes
import EventLoop
import Glibc

final class Publisher {
    let fd: Int32
    let frame: MessageFrame
    /// Whether the socket accepts nothing until it is writable.
    private(set) var isBlocked = false
    /// Bytes written since the last `reset`.
    private var written = 0
    /// The total number of messages that may be sent since the last `reset`.
    private var allowance = Int.max
    private var isGranted: Bool
    private var granted = 0
    private var credits = CreditReader()

    private let copies: UnsafeMutableRawBufferPointer
    private var position = 0
    private var composed = ByteBuffer()
    /// Messages composed since the last `reset`.
    private var composedCount = 0

    private static let copiesSize = 512 << 10
    /// How long a broker may take to acknowledge the first message, in nanoseconds.
    private static let patience: UInt64 = 10_000_000_000

    convenience init(topic: Int, _ wire: any Wire, payload: Int, port: UInt16) throws(BenchError) {
        try self.init(topics: topic..<(topic + 1), wire, payload: payload, port: port)
    }

    /// Publishes to `topics` in turn. Their frames have the same size.
    init(topics: Range<Int>, _ wire: any Wire, payload: Int, port: UInt16) throws(BenchError) {
        let frames = topics.map { wire.published(topic: $0, payload: payload) }
        frame = frames[0]
        isGranted = wire.grantsPublishers
        if isGranted { allowance = 0 }
        let bytes = frames.flatMap(\.bytes)
        precondition(bytes.count == frames.count * frame.size, "All topic names must have the same length.")
        copies = .allocate(byteCount: max(1, Publisher.copiesSize / bytes.count) * bytes.count, alignment: 16)
        for offset in stride(from: 0, to: copies.count, by: bytes.count) {
            (copies.baseAddress! + offset).copyMemory(from: bytes, byteCount: bytes.count)
        }
        do throws(BenchError) {
            fd = try Connector.open(port: port, try wire.publisher(topic: topics.lowerBound, payload: payload))
        } catch {
            copies.deallocate()
            throw error
        }
    }

    deinit {
        close(fd)
        copies.deallocate()
    }

    /// Messages sent, or composed for sending, since the last `reset`.
    var published: Int { composedCount > 0 ? composedCount : written / frame.size }

    /// Whether `messages` have been published and none of their bytes are still queued here.
    func isIdle(after messages: Int) -> Bool { published >= messages && composed.isEmpty }

    var isComplete: Bool { credits.isComplete }

    /// How many more messages may be sent.
    var room: Int { allowance - published }

    /// Writes copies of the frame until `messages` have been sent since the last `reset`, credit runs out or the socket
    /// blocks.
    func send(upTo messages: Int) throws(BenchError) {
        let goal = min(messages, allowance) * frame.size
        while !isBlocked, written < goal {
            let part = min(goal - written, copies.count - position)
            let count = try write(UnsafeRawBufferPointer(rebasing: copies[position..<(position + part)]))
            position = (position + count) % copies.count
            if count < part { isBlocked = true }
        }
    }

    /// Composes the next message, which carries `stamp` in the first eight bytes of its payload. There must be `room`.
    func compose(_ stamp: UInt64) {
        precondition(room > 0, "A publisher must not send more than it was granted.")
        let target = composed.reserve(frame.size)
        let next = composedCount * frame.size % copies.count
        target.copyMemory(from: copies.baseAddress! + next, byteCount: frame.size)
        target.storeBytes(of: stamp.bigEndian, toByteOffset: frame.head.count, as: UInt64.self)
        composed.commit(frame.size)
        composedCount += 1
    }

    /// Writes composed messages until the socket accepts no more.
    func flush() throws(BenchError) {
        while !isBlocked, !composed.isEmpty {
            let count = try write(composed.readable)
            if count < composed.count { isBlocked = true }
            composed.consume(count)
        }
    }

    private func write(_ bytes: UnsafeRawBufferPointer) throws(BenchError) -> Int {
        switch Socket.write(fd, bytes) {
        case .bytes(let count):
            written += count
            return count
        case .blocked: return 0
        case .failed(let error): throw BenchError("the publisher's connection broke: \(SystemError.text(of: error))")
        }
    }

    /// Waits until the message that opened the channel is acknowledged; it was then delivered to all subscribers.
    func waitForAcknowledgement() throws(BenchError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 16)
        defer { buffer.deallocate() }
        let deadline = Clock.monotonic() + Publisher.patience
        while !credits.isAcknowledged {
            if Clock.monotonic() > deadline { throw BenchError("the first message of a channel was not acknowledged") }
            var request = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
            poll(&request, 1, 100)
            try read(buffer)
        }
    }

    func unblock() { isBlocked = false }

    /// Reads what the broker sends: credit, or nothing of interest.
    func read(_ buffer: UnsafeMutableRawBufferPointer) throws(BenchError) {
        switch Socket.read(fd, into: buffer) {
        case .bytes(let count):
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            if isGranted {
                try credits.take(bytes)
                allowance += credits.granted - granted
                granted = credits.granted
            } else if bytes[0] == UInt8(ascii: "-") {
                throw BenchError("the broker refused the publisher: \(Connector.printable(Array(bytes)))")
            }
        case .blocked: break
        case .end: throw BenchError("the broker disconnected the publisher")
        case .failed(let error): throw BenchError("the publisher's connection broke: \(SystemError.text(of: error))")
        }
    }

    /// Resets the counters; everything composed must have been sent, up to the boundary of a message.
    func reset() {
        precondition(composed.isEmpty && written % frame.size == 0, "The last message must be sent completely.")
        if isGranted { allowance -= written / frame.size }
        written = 0
        composedCount = 0
        position = 0
    }
}
