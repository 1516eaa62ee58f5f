// Wire: a connection's two streams of bytes. What a client has sent waits until the broker reads it, in pieces of any
// size; what the broker writes goes as far as the client's socket has room, and waits until the client reads.

import Bytes
import Core

final class Wire {
    /// The connection whose socket it is; another one's once a session has been resumed by it.
    private(set) var shard: Int
    private(set) var id: ConnectionID
    var name: String { "\(shard)-\(id.index)" }
    /// From the client to the broker.
    private var up = ByteBuffer()
    /// Bytes that the client sent, and the broker read, in all.
    private(set) var sent = 0
    private(set) var read = 0
    /// What is to be told when the broker has read so far.
    private var unfed: [(offset: Int, tell: () -> Void)] = []
    /// Bytes that the broker wrote, in all.
    private(set) var written = 0
    /// From the broker to the client.
    private var down = ByteBuffer()
    /// Bytes that may be on their way to a client that does not read.
    var capacity = Int.max
    /// The client does not read.
    var isStalled = false
    /// The client sends nothing more; the broker has been told so.
    var isHalfClosed = false
    var isEndTold = false
    /// As the broker sees the socket: it takes no more; it is not to be read.
    var isBlocked = false
    var isPaused = false
    /// The broker has closed it, or knows that it is lost.
    var isClosed = false
    /// It was lost, with what was under way.
    private(set) var isReset = false
    /// The client's end is gone: what it had sent may still come, and what is written goes nowhere. The broker learns
    /// of that when it has read all, or never.
    private(set) var isCut = false
    var isMute = false
    /// It is on its way from one shard to another, and neither has it.
    var isUnderWay = false
    /// What the client wants to resume by it.
    var claim: ResumeClaim?
    /// Why that is refused.
    var refusal: String?
    /// What the client has sent by it of its session: frames of streams, and where it said that it has all before.
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

    /// When the broker has read up to `offset`, or all that was sent so far: frames that are whole by then are with it.
    func whenRead(_ offset: Int? = nil, _ tell: @escaping () -> Void) { unfed.append((offset ?? sent, tell)) }

    /// Takes the first bytes of what has arrived.
    func take(_ count: Int, into inbox: inout ByteBuffer) {
        inbox.append(UnsafeRawBufferPointer(rebasing: down.readable.prefix(count)))
        down.consume(count)
    }

    // The broker's end

    var unread: Int { up.count }
    var room: Int { capacity == .max ? .max : Swift.max(0, capacity - down.count) }
    /// There is something for the broker to do.
    var isReady: Bool { !isClosed && (isBlocked && room > 0 || isReadable || isBroken) }
    var isReadable: Bool { !isClosed && !isPaused && (up.count > 0 || isHalfClosed && !isEndTold) }
    /// The broker is to be told that the client's end is gone.
    var isBroken: Bool { isCut && !isMute && (isPaused || up.count == 0) }

    func withUnread(_ most: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        let count = Swift.min(most, up.count)
        // The engine must not find the bytes behind the end of a read.
        let copy = [UInt8](up.readable.prefix(count))
        up.consume(count)
        read += count
        let told = unfed.prefix { $0.offset <= read }
        unfed.removeFirst(told.count)
        for feed in told { feed.tell() }
        copy.withUnsafeBytes(body)
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        written += bytes.count
        if !isCut { down.append(bytes) }
    }

    /// It is the socket of another connection from now on.
    func move(to id: ConnectionID, on shard: Int) {
        (self.shard, self.id) = (shard, id)
        isUnderWay = false
        isBlocked = false
        isPaused = false
        isEndTold = false
    }

    /// The client's end is gone; the broker gets the first `count` bytes of what is on its way to it.
    func cut(keeping count: Int, isMute: Bool) {
        isCut = true
        self.isMute = isMute
        up.truncate(by: Swift.max(0, up.count - count))
        down.removeAll()
        isHalfClosed = false
    }

    /// What was under way is lost.
    func drop() {
        isReset = true
        up.removeAll()
        down.removeAll()
    }
}
