// MicroDaemon: libmicrohttpd, which has the bytes of HTTP/1.1, driven from a loop of ours. It has neither a listening
// socket nor a thread: connections are given to it, and `run` lets it read, call back, and write, when its descriptor
// is readable or something here made it due.
//
// A connection that waits – for its answer, or for more of a stream – is suspended: the library forgets its socket
// until it is resumed, so somebody else has to watch that for the client's end.
//
//     idle ──head──▶ uploading ──end──▶ waiting ──answer──▶ answering ──▶ idle
//       └────────────(no body)────────────▲ └─ suspended       └─ suspended

import CMicroHTTPD
import Core
import EventLoop
import Glibc

/// One connection of the library's. The library owns its socket, and closes it after `MicroDaemon.closes`.
final class MicroConnection {
    enum Stage {
        /// No request, or the head of one that is not complete.
        case idle
        case uploading
        /// The request is complete.
        case waiting
        /// The answer is the library's to write.
        case answering
        /// It was answered without the library; what still comes is thrown away.
        case discarding
    }

    let fd: Int32
    let id: ConnectionID
    unowned let daemon: MicroDaemon
    fileprivate var handle: OpaquePointer?
    /// The request's, as it came.
    fileprivate(set) var target = ""
    /// Its bytes.
    fileprivate var targetCount = 0
    fileprivate var isSuspended = false
    /// The library was left without an answer to the complete request, and so does not read on before it has one.
    fileprivate var isSettled = false
    /// It is to end as soon as the library comes by.
    fileprivate(set) var isDropped = false
    /// The request is HEAD.
    fileprivate var isHead = false
    var stage = Stage.idle

    init(fd: Int32, id: ConnectionID, daemon: MicroDaemon) {
        self.fd = fd
        self.id = id
        self.daemon = daemon
    }

    /// Has it wait for its answer. What the library expected of a connection that is suspended it still expects when
    /// that is resumed: here more of the request, and it would take the client's end, which may have come meanwhile,
    /// for a request cut off. So it first finds out that it waits for us alone: it asks again at once.
    fileprivate func wait() {
        if isSettled { suspend() } else { isSettled = true }
    }

    /// Has the library forget it for now: it is called back for it only after `MicroDaemon.resume`.
    fileprivate func suspend() {
        isSuspended = true
        MHD_suspend_connection(handle)
    }

    /// While the library is about to refuse a request for its head, this tells whose that is: only there the head is
    /// complete, and has led neither to a callback nor to an answer.
    fileprivate var isRefused: Bool {
        stage == .idle && !isDropped && fb_mhd_head(handle) > 0 && fb_mhd_is_answered(handle) == 0
    }

    /// The library takes a line feed for the end of a line, and a line that begins with a blank for more of the name
    /// before it, where others read a value, or another request. Its parser has left the head as it came, but for what
    /// ends its parts:
    ///
    ///     GET /path HTTP/1.1 ␀␀ name ␀ value ␀␀ name ␀ value ␀␀ ␀␀
    ///
    /// - Returns: whether each line of it ends with CR LF, begins with its own name, and has no NUL.
    fileprivate func hasCleanLines(from method: UnsafePointer<CChar>, version: UnsafePointer<CChar>) -> Bool {
        let head = UnsafeRawBufferPointer(start: method, count: fb_mhd_head(handle))
        /// Behind the next NUL, nil if there is none.
        func skip(_ start: Int) -> Int? {
            var place = start
            while place < head.count, head[place] != 0 { place += 1 }
            return place < head.count ? place + 1 : nil
        }
        func isNul(_ place: Int) -> Bool { place < head.count && head[place] == 0 }
        // One blank behind the method, one behind the target.
        let start = UnsafeRawPointer(version) - UnsafeRawPointer(method)
        guard start == strlen(method) + 1 + targetCount + 1, let first = skip(start), isNul(first) else { return false }
        var place = first + 1
        while place < head.count, head[place] != 0 {
            guard head[place] != UInt8(ascii: " "), head[place] != UInt8(ascii: "\t"), let value = skip(place),
                let end = skip(value), isNul(end)
            else { return false }
            place = end + 1
        }
        return place + 2 == head.count && isNul(place + 1)
    }

    /// Goes over the fields of the request's head.
    func forEachField(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        withoutActuallyEscaping(body) { body in
            var visitor = FieldVisitor(body: body)
            withUnsafeMutablePointer(to: &visitor) {
                _ = MHD_get_connection_values_n(handle, .HEADER_KIND, visitField, UnsafeMutableRawPointer($0))
            }
        }
    }

    /// Gives the library the answer.
    /// - Returns: false when it has no memory for it.
    func answer(_ answer: HTTP1Answer) -> Bool {
        stage = .answering
        let length = answer.length.map { UInt64($0) } ?? UInt64.max
        let context = Unmanaged.passUnretained(self).toOpaque()
        let response = MHD_create_response_from_callback(length, MicroDaemon.piece, readBody, context, nil)
        guard let response else { return false }
        // First, as it makes the library forget which others there are.
        if answer.isLast { _ = MHD_add_response_header(response, "connection", "close") }
        // Chunked, it would end the body that HEAD has not.
        if isHead, answer.length == nil { fb_mhd_end_behind(response) }
        for (name, value) in answer.headers { _ = MHD_add_response_header(response, name, value) }
        let done = MHD_queue_response(handle, UInt32(answer.status), response)
        MHD_destroy_response(response)
        return done == .YES
    }
}

/// Subclasses say what requests are for. Belongs to the thread that made it.
class MicroDaemon {
    /// What a callback of the library's is told to do next.
    enum Verdict {
        case goOn
        /// Until `resume`; there may be one more callback before.
        case suspend
        /// The connection is over.
        case end
    }

    /// Bytes that the library allots to a connection: for the head of a request, and then for a piece of the answer. It
    /// clears all of them between requests, so they are not many more than a head may have.
    static let memory = Limits.http1Memory
    /// Bytes of a body of known length that are asked for at a time.
    static let piece = 16 << 10
    /// How often the library may go over its connections before the loop's others have their turn: each makes one step
    /// a time, and an answer takes a few.
    private static let rounds = 4

    private var daemon: OpaquePointer!
    private var connections: [ObjectIdentifier: MicroConnection] = [:]
    /// `run` has something to do.
    private(set) var isDue = false
    /// What the loop is to poll, for reading.
    private(set) var descriptor: Int32 = -1

    /// Nil when the process may have no more files, or no memory.
    /// - Parameter limit: connections that it may have.
    init?(limit: Int) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        daemon = fb_mhd_start(
            UInt32(clamping: limit), MicroDaemon.memory, handleRequest, noteTarget, noteConnection, noteEnd,
            noteTrouble, context)
        guard daemon != nil else { return nil }
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

    /// Lets the library do what there is to do. It calls back from here, and from nowhere else.
    func run() {
        var rounds = 0
        repeat {
            MHD_run(daemon)
            rounds += 1
            var timeout: UInt64 = 0
            isDue = MHD_get_timeout(daemon, &timeout) == .YES && timeout == 0
        } while isDue && rounds < MicroDaemon.rounds
    }

    /// Ends every connection, and the library's part. To be called once, and last.
    func stop() {
        for connection in connections.values { drop(connection) }
        MHD_run(daemon)
        MHD_stop_daemon(daemon)
        daemon = nil
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
}

// MARK: What the library calls

private struct FieldVisitor {
    let body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void
}

private func visitField(
    _ context: UnsafeMutableRawPointer?, _ kind: MHD_ValueKind, _ name: UnsafePointer<CChar>?, _ nameCount: Int,
    _ value: UnsafePointer<CChar>?, _ valueCount: Int
) -> MHD_Result {
    let visitor = context!.assumingMemoryBound(to: FieldVisitor.self)
    visitor.pointee.body(
        UnsafeRawBufferPointer(start: name, count: nameCount), UnsafeRawBufferPointer(start: value, count: valueCount))
    return .YES
}

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
        daemon.closes(connection)
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
        let name = text(method)
        connection.isHead = name == "HEAD"
        verdict = connection.daemon.begin(
            connection, method: name, version: text(version),
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
    case .end: return .NO
    }
    return .YES
}

private func readBody(
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
    if stage != .idle { connection.daemon.over(connection, isDone: code == .REQUEST_TERMINATED_COMPLETED_OK) }
}
