// MicroDaemon: an instance of libmicrohttpd, which parses and writes HTTP/1.1, driven by our own loop. It has neither a
// listening socket nor a thread: connections are added to it, and `run` lets it read, call back and write when its
// descriptor is readable or it is due.
//
// A connection that waits for its answer is suspended: the library does not watch its socket until it is resumed, so
// the loop must watch it for disconnection. Each resumption makes the library iterate over all suspended connections.
// Therefore a connection whose answer is a stream, which may last indefinitely, is released together with its socket.
//
//     idle ──head──▶ uploading ──end──▶ waiting ──answer──▶ answering ──▶ idle
//       └────────────(no body)────────────▲ └─ suspended
//                                           └────stream────▶ released

import CMicroHTTPD
import Core
import EventLoop
import Glibc

/// Subclasses handle the requests. Belongs to the thread that made it.
class MicroDaemon {
    /// What the library's callback does next.
    enum Verdict {
        case goOn
        /// Suspend until `resume`; there may be one more callback first.
        case suspend
        /// Call `leaves` once the library's callback has returned.
        case release
        /// End the connection.
        case end
    }

    /// Bytes that the library allocates for a connection: for the head of a request, and then for a piece of the
    /// answer. The library clears them between requests, so this is not much more than the maximum size of a head.
    static let memory = Limits.http1Memory
    /// Bytes of a body of known length that are requested at a time.
    static let piece = 16 << 10

    private var daemon: OpaquePointer!
    private var connections: [ObjectIdentifier: MicroConnection] = [:]
    /// Whether `run` has something to do.
    private(set) var isDue = false {
        didSet { if isDue, !oldValue { becomesDue() } }
    }
    /// The descriptor that the loop must poll for reading.
    private(set) var descriptor: Int32 = -1
    /// A socket whose peer is closed. It replaces a released socket in the library.
    private let dead: Int32
    /// Connections for which `leaves` must be called.
    fileprivate var leaving: [MicroConnection] = []

    /// Nil if the process cannot open more files or is out of memory.
    /// - Parameter limit: maximum number of connections.
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

    /// Adds a socket, which the library owns from now on, even if this fails.
    func add(_ fd: Int32, id: ConnectionID) -> MicroConnection? {
        let connection = MicroConnection(fd: fd, id: id, daemon: self)
        adding = connection
        // The library uses the address only to count connections, which is done elsewhere.
        var address = sockaddr()
        address.sa_family = sa_family_t(AF_INET)
        let done = MHD_add_connection(daemon, fd, &address, socklen_t(MemoryLayout<sockaddr_in>.size))
        adding = nil
        isDue = true
        return done == .YES ? connection : nil
    }

    fileprivate var adding: MicroConnection?
    /// The connection that last received a request line.
    fileprivate weak var latest: MicroConnection?

    /// Marks the instance, whose descriptor is readable, as due.
    func wake() { isDue = true }

    /// Makes the library handle a connection again.
    func resume(_ connection: MicroConnection) {
        guard connection.isSuspended, let handle = connection.handle else { return }
        connection.isSuspended = false
        isDue = true
        MHD_resume_connection(handle)
    }

    /// Ends a connection; output already written is still sent.
    func drop(_ connection: MicroConnection) {
        guard !connection.isDropped, connection.handle != nil else { return }
        connection.isDropped = true
        Socket.shutdown(connection.fd)
        isDue = true
        resume(connection)
    }

    /// Takes a client's socket from the library, which finds a dead one in its place and drops the connection. Must not
    /// be called from the library's callbacks.
    /// - Returns: another descriptor of the socket; nil if the process cannot open more, in which case nothing changes.
    func release(_ connection: MicroConnection) -> Int32? {
        guard connection.handle != nil, let copy = Socket.duplicate(connection.fd) else { return nil }
        // The library's poller watches the socket until it is suspended.
        if !connection.isSuspended { connection.suspend() }
        Socket.replace(connection.fd, by: dead)
        abandon(connection)
        return copy
    }

    /// Ends a connection without further notifications.
    func abandon(_ connection: MicroConnection) {
        connection.isReleased = true
        drop(connection)
    }

    /// Lets the library handle its connections once: each advances by one step, and an answer takes a few. Callbacks
    /// are made only from here.
    func run() {
        isDue = false
        MHD_run(daemon)
        while let connection = leaving.popLast() {
            if connection.handle != nil, !connection.isDropped { leaves(connection) }
        }
        var timeout: UInt64 = 0
        if MHD_get_timeout(daemon, &timeout) == .YES, timeout == 0 { isDue = true }
    }

    /// Ends all connections and stops the library. Must be the last call, and only once.
    func stop() {
        for connection in connections.values { drop(connection) }
        MHD_run(daemon)
        MHD_stop_daemon(daemon)
        daemon = nil
        close(dead)
    }

    /// Handles a request that the library is about to refuse, with an answer that has two heads.
    fileprivate func refuseLength() {
        // Usually, the head has arrived in one piece.
        let one = latest.flatMap { $0.isRefused ? $0 : nil } ?? connections.values.first { $0.isRefused }
        if let one { refuseLength(of: one) }
    }

    fileprivate func insert(_ connection: MicroConnection) { connections[ObjectIdentifier(connection)] = connection }
    fileprivate func remove(_ connection: MicroConnection) { connections[ObjectIdentifier(connection)] = nil }

    // Overridden by subclasses

    /// The head of a request is complete; `stage` becomes `uploading` or `waiting`.
    /// - Parameter isClean: whether all parsers agree about the lines of the head.
    func begin(_ connection: MicroConnection, method: String, version: String, isClean: Bool) -> Verdict { .end }

    /// Refuses a request whose head is complete, but whose body has an unknown length. The library's answer must not
    /// reach the client; `stage` becomes `discarding`.
    func refuseLength(of connection: MicroConnection) {}

    /// A piece of the body has arrived.
    func take(_ bytes: UnsafeRawBufferPointer, on connection: MicroConnection) -> Verdict { .end }

    /// The request is complete. After `goOn` without an answer, the library asks again in its next run.
    func answer(_ connection: MicroConnection) -> Verdict { .end }

    /// The library requests more of the answer's body.
    func read(_ connection: MicroConnection, into buffer: UnsafeMutableRawBufferPointer) -> HTTP1Piece { .gone }

    /// A request and its answer have ended.
    /// - Parameter isDone: whether the answer was written completely.
    func over(_ connection: MicroConnection, isDone: Bool) {}

    /// The connection has ended; its socket is closed right after this.
    func closes(_ connection: MicroConnection) {}

    /// `run` has work to do.
    func becomesDue() {}

    /// Called when a waiting connection can continue.
    func proceed(_ connection: MicroConnection) {}

    /// Called after the verdict `release`.
    func leaves(_ connection: MicroConnection) {}
}

// MARK: Callbacks of the library

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

/// Called with the target as received, before the library parses it.
private func noteTarget(
    _ context: UnsafeMutableRawPointer?, _ target: UnsafePointer<CChar>?, _ handle: OpaquePointer?
) -> UnsafeMutableRawPointer? {
    let connection = connection(handle)
    connection.daemon.latest = connection
    connection.target = text(target)
    connection.targetCount = target.map { strlen($0) } ?? 0
    return nil
}

/// Called for messages that the library would log.
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
        // If a connection is refused in the middle of a body, the library leaks it together with its socket. Instead,
        // it will find the socket at its end of stream.
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
        // After an error, the library would leak the connection together with its socket. Instead, its next write will
        // fail, because the socket is shut down.
        _ = buffer.initializeMemory(as: UInt8.self, repeating: 0)
        return most
    }
    switch connection.daemon.read(connection, into: buffer) {
    case .bytes(let count): return count
    case .end: return Int(FB_MHD_END_OF_STREAM)
    case .later, .gone:
        // A connection that is gone is dropped right after this.
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
    connection.hasBeenAsked = false
    guard stage != .idle, !connection.isReleased else { return }
    connection.daemon.over(connection, isDone: code == .REQUEST_TERMINATED_COMPLETED_OK)
}
