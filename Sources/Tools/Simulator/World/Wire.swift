// Wire: the two byte streams of a connection. What a client has sent waits until the broker reads it, in pieces of any
// size; what the broker writes is limited by the room in the client's socket, and waits until the client reads.

import Bytes
import Core

final class Wire {
    /// The connection whose socket this is; changes when a session is resumed on it.
    private(set) var shard: Int
    private(set) var id: ConnectionID
    var name: String { "\(shard)-\(id.index)" }
    /// From the client to the broker.
    private var up = ByteBuffer()
    /// Total bytes that the client sent, and that the broker read.
    private(set) var sent = 0
    private(set) var read = 0
    /// Notifications for when the broker has read up to an offset.
    private var unfed: [(offset: Int, deliver: () -> Void)] = []
    /// Total bytes that the broker wrote.
    private(set) var written = 0
    /// From the broker to the client.
    private var down = ByteBuffer()
    /// How many bytes may be in transit to a client that does not read.
    var capacity = Int.max
    /// Whether the client does not read.
    var isStalled = false
    /// Whether the client sends nothing more and the broker has been notified.
    var isHalfClosed = false
    var isEndTold = false
    /// The broker's view of the socket: whether it accepts no more output, and whether it must not be read.
    var isBlocked = false
    var isPaused = false
    /// Whether the broker has closed the wire, or knows that it is lost.
    var isClosed = false
    /// Whether the wire was lost, with everything in transit.
    private(set) var isReset = false
    /// Whether the client's end is gone. What the client had sent may still arrive, and what is written is discarded.
    /// The broker notices when it has read everything, or never.
    private(set) var isCut = false
    var isMute = false
    /// Whether the wire is moving from one shard to another, and neither has it.
    var isUnderWay = false
    /// What the client wants to resume on this wire.
    var claim: ResumeClaim?
    /// Why the claim is refused.
    var refusal: String?
    /// What the client has sent on this wire within its session: frames of streams, and its acknowledgements.
    var marks = SentMarks()

    let isHTTP2: Bool

    init(shard: Int, id: ConnectionID, isHTTP2: Bool) {
        self.shard = shard
        self.id = id
        self.isHTTP2 = isHTTP2
    }

    // The client's end

    var arrived: Int { down.count }

    func send(_ write: (inout ByteBuffer) -> Void) {
        let before = up.count
        write(&up)
        sent += up.count - before
    }

    /// Notifies the caller when the broker has read up to `offset`, or everything sent so far: the broker then has all
    /// frames that are complete.
    func whenRead(_ offset: Int? = nil, _ deliver: @escaping () -> Void) { unfed.append((offset ?? sent, deliver)) }

    /// Takes the first `count` bytes that have arrived.
    func take(_ count: Int, into inbox: inout ByteBuffer) {
        inbox.append(UnsafeRawBufferPointer(rebasing: down.readable.prefix(count)))
        down.consume(count)
    }

    // The broker's end

    var unread: Int { up.count }
    var room: Int { capacity == .max ? .max : Swift.max(0, capacity - down.count) }
    /// Whether there is something for the broker to do.
    var isReady: Bool { !isClosed && (isBlocked && room > 0 || isReadable || isBroken) }
    var isReadable: Bool { !isClosed && !isPaused && (up.count > 0 || isHalfClosed && !isEndTold) }
    /// Whether the broker should be notified that the client's end is gone.
    var isBroken: Bool { isCut && !isMute && (isPaused || up.count == 0) }

    func withUnread(_ most: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        let count = Swift.min(most, up.count)
        // A copy, so that the engine cannot read bytes beyond the end of a read.
        let copy = [UInt8](up.readable.prefix(count))
        up.consume(count)
        read += count
        let reported = unfed.prefix { $0.offset <= read }
        unfed.removeFirst(reported.count)
        for feed in reported { feed.deliver() }
        copy.withUnsafeBytes(body)
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        written += bytes.count
        if !isCut { down.append(bytes) }
    }

    /// Makes this the socket of another connection from now on.
    func move(to id: ConnectionID, on shard: Int) {
        (self.shard, self.id) = (shard, id)
        isUnderWay = false
        isBlocked = false
        isPaused = false
        isEndTold = false
    }

    /// Cuts off the client's end; of the bytes in transit to the broker, it receives the first `count`.
    func cut(keeping count: Int, isMute: Bool) {
        isCut = true
        self.isMute = isMute
        up.truncate(by: Swift.max(0, up.count - count))
        down.removeAll()
        isHalfClosed = false
    }

    /// Drops everything in transit.
    func drop() {
        isReset = true
        up.removeAll()
        down.removeAll()
    }
}
