// MicroDaemon: libmicrohttpd, which has the bytes of HTTP/1.1, driven from a loop of ours. It has neither a listening
// socket nor a thread: connections are given to it, and `run` lets it read, call back, and write, when its descriptor
// is readable or something here made it due.
//
// A connection that waits for its answer is suspended: the library forgets its socket until it is resumed, so somebody
// else has to watch that for the client's end. Whenever it resumes one, the library goes over all that are suspended:
// one whose answer is a stream, which may last, is released, socket and all.
//
//     idle ──head──▶ uploading ──end──▶ waiting ──answer──▶ answering ──▶ idle
//       └────────────(no body)────────────▲ └─ suspended
//                                           └────stream────▶ released

import CMicroHTTPD
import Core
import EventLoop
import Glibc

/// Subclasses say what requests are for. Belongs to the thread that made it.
class MicroDaemon {
    /// What a callback of the library's is told to do next.
    enum Verdict {
        case goOn
        /// Until `resume`; there may be one more callback before.
        case suspend
        /// `leaves` is called for it, once the library has nothing more to do with it.
        case release
        /// The connection is over.
        case end
    }

    /// Bytes that the library allots to a connection: for the head of a request, and then for a piece of the answer. It
    /// clears all of them between requests, so they are not many more than a head may have.
    static let memory = Limits.http1Memory
    /// Bytes of a body of known length that are asked for at a time.
    static let piece = 16 << 10

    private var daemon: OpaquePointer!
    private var connections: [ObjectIdentifier: MicroConnection] = [:]
    /// `run` has something to do.
    private(set) var isDue = false {
        didSet { if isDue, !oldValue { becomesDue() } }
    }
    /// What the loop is to poll, for reading.
    private(set) var descriptor: Int32 = -1
    /// A socket whose peer is gone: what the library has in the place of one that was released.
    private let dead: Int32
    /// Those to call `leaves` for.
    fileprivate var leaving: [MicroConnection] = []

    /// Nil when the process may have no more files, or no memory.
    /// - Parameter limit: connections that it may have.
    init?(limit: Int) {
        guard let (dead, peer) = Socket.pair(buffer: 1) else { return nil }
        close(peer)
        self.dead = dead
        let context = Unmanaged.passUnretained(self).toOpaque()
        daemon = fb_mhd_start(
            UInt32(clamping: limit), MicroDaemon.memory, handleRequest, noteTarget, noteConnection, noteEnd,
            noteTrouble, context)
        guard daemon != nil else {
            close(dead)
            return nil
        }
        descriptor = fb_mhd_descriptor(daemon)
    }

    var count: Int { connections.count }

    /// Gives it a socket, which is the library's from here on, whatever comes of it.
    func add(_ fd: Int32, id: ConnectionID) -> MicroConnection? {
        let connection = MicroConnection(fd: fd, id: id, daemon: self)
        adding = connection
        // It keeps the address to count by, which is done already.
        var address = sockaddr()
        address.sa_family = sa_family_t(AF_INET)
        let done = MHD_add_connection(daemon, fd, &address, socklen_t(MemoryLayout<sockaddr_in>.size))
        adding = nil
        isDue = true
        return done == .YES ? connection : nil
    }

    fileprivate var adding: MicroConnection?
    /// Whose request's first line came last.
    fileprivate weak var latest: MicroConnection?

    /// The descriptor is readable.
    func wake() { isDue = true }

    /// Has the library come by at a connection again.
    func resume(_ connection: MicroConnection) {
        guard connection.isSuspended, let handle = connection.handle else { return }
        connection.isSuspended = false
        isDue = true
        MHD_resume_connection(handle)
    }

    /// Ends a connection; what was written is still sent.
    func drop(_ connection: MicroConnection) {
        guard !connection.isDropped, connection.handle != nil else { return }
        connection.isDropped = true
        Socket.shutdown(connection.fd)
        isDue = true
        resume(connection)
    }

    /// Takes a client's socket from the library, which finds a dead one in its place, and forgets the connection. Not
    /// to be called by what the library calls.
    /// - Returns: another descriptor of the socket; nil when the process may have no more, and nothing was done.
    func release(_ connection: MicroConnection) -> Int32? {
        guard connection.handle != nil, let copy = Socket.duplicate(connection.fd) else { return nil }
        // Until then the library's poller watches the socket.
        if !connection.isSuspended { connection.suspend() }
        Socket.replace(connection.fd, by: dead)
        abandon(connection)
        return copy
    }

    /// Ends a connection, of which nothing more is told.
    func abandon(_ connection: MicroConnection) {
        connection.isReleased = true
        drop(connection)
    }

    /// Lets the library go over its connections once: each makes one step, and an answer takes a few. It calls back
    /// from here, and from nowhere else.
    func run() {
        isDue = false
        MHD_run(daemon)
        while let connection = leaving.popLast() {
            if connection.handle != nil, !connection.isDropped { leaves(connection) }
        }
        var timeout: UInt64 = 0
        if MHD_get_timeout(daemon, &timeout) == .YES, timeout == 0 { isDue = true }
    }

    /// Ends every connection, and the library's part. To be called once, and last.
    func stop() {
        for connection in connections.values { drop(connection) }
        MHD_run(daemon)
        MHD_stop_daemon(daemon)
        daemon = nil
        close(dead)
    }

    /// The library is about to refuse a request, and to write two heads of an answer.
    fileprivate func refuseLength() {
        // The head has mostly come in one piece.
        let one = latest.flatMap { $0.isRefused ? $0 : nil } ?? connections.values.first { $0.isRefused }
        if let one { refuseLength(of: one) }
    }

    fileprivate func insert(_ connection: MicroConnection) { connections[ObjectIdentifier(connection)] = connection }
    fileprivate func remove(_ connection: MicroConnection) { connections[ObjectIdentifier(connection)] = nil }

    // What subclasses do

    /// The head of a request has come; `stage` becomes `uploading` or `waiting`.
    /// - Parameter isClean: each line of the head is what everybody takes it for.
    func begin(_ connection: MicroConnection, method: String, version: String, isClean: Bool) -> Verdict { .end }

    /// The head of a request has come, of whose body nobody knows the length. What the library answers to it must not
    /// reach the client; `stage` becomes `discarding`.
    func refuseLength(of connection: MicroConnection) {}

    /// More of its body has come.
    func take(_ bytes: UnsafeRawBufferPointer, on connection: MicroConnection) -> Verdict { .end }

    /// It is complete, and is to be answered now or when it is resumed.
    func answer(_ connection: MicroConnection) -> Verdict { .end }

    /// More of the answer's body is wanted.
    func read(_ connection: MicroConnection, into buffer: UnsafeMutableRawBufferPointer) -> HTTP1Piece { .gone }

    /// A request is over, as is its answer.
    /// - Parameter isDone: the answer is written.
    func over(_ connection: MicroConnection, isDone: Bool) {}

    /// The connection is over; its socket is closed right after this.
    func closes(_ connection: MicroConnection) {}

    /// There is something to do for `run`.
    func becomesDue() {}

    /// There is something for a connection that waits.
    func proceed(_ connection: MicroConnection) {}

    /// The verdict was `release`.
    func leaves(_ connection: MicroConnection) {}
}

// MARK: What the library calls

private func connection(_ handle: OpaquePointer?) -> MicroConnection {
    Unmanaged<MicroConnection>.fromOpaque(fb_mhd_context(handle)!).takeUnretainedValue()
}

private func text(_ bytes: UnsafePointer<CChar>?) -> String { bytes.map { String(cString: $0) } ?? "" }

private func noteConnection(
    _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?,
    _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ event: MHD_ConnectionNotificationCode
) {
    let daemon = Unmanaged<MicroDaemon>.fromOpaque(context!).takeUnretainedValue()
    if event == .CONNECTION_NOTIFY_STARTED {
        let connection = daemon.adding!
        connection.handle = handle
        daemon.insert(connection)
        place!.pointee = Unmanaged.passUnretained(connection).toOpaque()
    } else if let opaque = place!.pointee {
        let connection = Unmanaged<MicroConnection>.fromOpaque(opaque).takeUnretainedValue()
        connection.handle = nil
        if !connection.isReleased { daemon.closes(connection) }
        daemon.remove(connection)
    }
}

/// Called with the target as it came, before the library takes it apart.
private func noteTarget(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ handle: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    let connection = connection(handle)
    connection.daemon.latest = connection
    connection.target = text(target)
    connection.targetCount = target.map { strlen($0) } ?? 0
    return nil
}

/// Called with what the library would log.
private func noteTrouble(_ context: UnsafeMutableRawPointer?, _ format: UnsafePointer<CChar>?, _ list: CVaListPointer?)
{
    guard let format, fb_mhd_is_bad_length(format) != 0 else { return }
    Unmanaged<MicroDaemon>.fromOpaque(context!).takeUnretainedValue().refuseLength()
}

/// Called when the head is complete, for each piece of the body, and then until there is an answer.
private func handleRequest(
    _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?, _ path: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ bytes: UnsafePointer<CChar>?,
    _ count: UnsafeMutablePointer<Int>?, _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    let connection = connection(handle)
    if connection.isDropped {
        // The library forgets for good, socket and all, a connection that is refused in the middle of a body. It will
        // find the socket at its end.
        if count!.pointee == 0 { return .NO }
        count!.pointee = 0
        return .YES
    }
    let verdict: MicroDaemon.Verdict
    switch connection.stage {
    case .idle:
        connection.hasRequested = true
        verdict = connection.daemon.begin(
            connection, method: text(method), version: text(version),
            isClean: connection.hasCleanLines(from: method!, version: version!))
    case .uploading where count!.pointee > 0:
        verdict = connection.daemon.take(UnsafeRawBufferPointer(start: bytes, count: count!.pointee), on: connection)
        count!.pointee = 0
    case .uploading, .waiting, .answering:
        verdict = connection.daemon.answer(connection)
    case .discarding:
        verdict = count!.pointee > 0 ? .goOn : .end
        count!.pointee = 0
    }
    switch verdict {
    case .goOn: break
    case .suspend: connection.wait()
    case .release:
        connection.suspend()
        connection.daemon.leaving.append(connection)
    case .end: return .NO
    }
    return .YES
}

func readBody(
    _ context: UnsafeMutableRawPointer?, _ position: UInt64, _ buffer: UnsafeMutablePointer<CChar>?, _ most: Int
) -> Int {
    let connection = Unmanaged<MicroConnection>.fromOpaque(context!).takeUnretainedValue()
    let buffer = UnsafeMutableRawBufferPointer(start: buffer, count: most)
    if connection.isDropped {
        // An error would make the library forget the connection for good, socket and all. It finds out when it writes,
        // as the socket is shut down.
        _ = buffer.initializeMemory(as: UInt8.self, repeating: 0)
        return most
    }
    switch connection.daemon.read(connection, into: buffer) {
    case .bytes(let count): return count
    case .end: return Int(FB_MHD_END_OF_STREAM)
    case .later, .gone:
        // One that is gone is dropped right after this.
        connection.suspend()
        return 0
    }
}

private func noteEnd(
    _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?,
    _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ code: MHD_RequestTerminationCode
) {
    let connection = connection(handle)
    let stage = connection.stage
    connection.stage = .idle
    connection.isSettled = false
    guard stage != .idle, !connection.isReleased else { return }
    connection.daemon.over(connection, isDone: code == .REQUEST_TERMINATED_COMPLETED_OK)
}
