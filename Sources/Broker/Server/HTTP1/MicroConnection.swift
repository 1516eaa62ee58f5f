// MicroConnection: one connection of libmicrohttpd's: what of its request is known, and what it is told.

import CMicroHTTPD
import Core

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
    var handle: OpaquePointer?
    /// The request's, as it came.
    var target = ""
    /// Its bytes.
    var targetCount = 0
    var isSuspended = false
    /// Its socket is the library's no more.
    var isReleased = false
    /// The library was left without an answer to the complete request, and so does not read on before it has one.
    var isSettled = false
    /// The head of its first request is complete. Until then it is known to have sent something.
    var hasRequested = false
    /// It is to end as soon as the library comes by.
    var isDropped = false
    var stage = Stage.idle

    init(fd: Int32, id: ConnectionID, daemon: MicroDaemon) {
        self.fd = fd
        self.id = id
        self.daemon = daemon
    }

    /// Has it wait for its answer. What the library expected of a connection that is suspended it still expects when
    /// that is resumed: here more of the request, and it would take the client's end, which may have come meanwhile,
    /// for a request cut off. So it first finds out that it waits for us alone: it asks again at once.
    func wait() {
        if isSettled { suspend() } else { isSettled = true }
    }

    /// Has the library forget it for now: it is called back for it only after `MicroDaemon.resume`.
    func suspend() {
        isSuspended = true
        MHD_suspend_connection(handle)
    }

    /// While the library is about to refuse a request for its head, this tells whose that is: only there the head is
    /// complete, and has led neither to a callback nor to an answer.
    var isRefused: Bool {
        stage == .idle && !isDropped && fb_mhd_head(handle) > 0 && fb_mhd_is_answered(handle) == 0
    }

    /// The library takes a line feed for the end of a line, and a line that begins with a blank for more of the name
    /// before it, where others read a value, or another request. Its parser has left the head as it came, but for what
    /// ends its parts:
    ///
    ///     GET /path HTTP/1.1 ␀␀ name ␀ value ␀␀ name ␀ value ␀␀ ␀␀
    ///
    /// - Returns: whether each line of it ends with CR LF, begins with its own name, and has no NUL.
    func hasCleanLines(from method: UnsafePointer<CChar>, version: UnsafePointer<CChar>) -> Bool {
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
        // Not by `withoutActuallyEscaping`, which puts the length of this file's whole path into the program.
        var fields: [Field] = []
        withUnsafeMutablePointer(to: &fields) {
            _ = MHD_get_connection_values_n(handle, .HEADER_KIND, visitField, UnsafeMutableRawPointer($0))
        }
        for field in fields { body(field.name, field.value) }
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
        // That of HEAD of a stream. Chunked, it would end the body that HEAD has not.
        if answer.length == nil { fb_mhd_end_behind(response) }
        for (name, value) in answer.headers { _ = MHD_add_response_header(response, name, value) }
        let done = MHD_queue_response(handle, UInt32(answer.status), response)
        MHD_destroy_response(response)
        return done == .YES
    }
}

/// A field of a head, in the library's memory.
private struct Field {
    let name: UnsafeRawBufferPointer
    let value: UnsafeRawBufferPointer
}

private func visitField(
    _ context: UnsafeMutableRawPointer?, _ kind: MHD_ValueKind, _ name: UnsafePointer<CChar>?, _ nameCount: Int,
    _ value: UnsafePointer<CChar>?, _ valueCount: Int
) -> MHD_Result {
    context!.assumingMemoryBound(to: [Field].self).pointee.append(
        Field(
            name: UnsafeRawBufferPointer(start: name, count: nameCount),
            value: UnsafeRawBufferPointer(start: value, count: valueCount)))
    return .YES
}
