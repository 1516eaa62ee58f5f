// MicroConnection: a connection of libmicrohttpd, with the state of its request and its answer.

import CMicroHTTPD
import Core

/// A connection of the library. The library owns its socket, and closes it after `MicroDaemon.closes`.
final class MicroConnection {
    enum Stage {
        /// No request, or an incomplete head.
        case idle
        case uploading
        /// The request is complete.
        case waiting
        /// The library writes the answer.
        case answering
        /// The request was answered without the library; further input is discarded.
        case discarding
    }

    let fd: Int32
    let id: ConnectionID
    unowned let daemon: MicroDaemon
    var handle: OpaquePointer?
    /// The request's target as received.
    var target = ""
    /// The target's length in bytes.
    var targetCount = 0
    var isSuspended = false
    /// Whether the library no longer owns the connection's socket.
    var isReleased = false
    /// Whether the library has asked for an answer to the complete request. The library reads nothing more until it has
    /// the answer.
    var hasBeenAsked = false
    /// Whether the head of the client's first request is complete. Before that, the client has sent at least one byte.
    var hasRequested = false
    /// Whether the connection ends as soon as the library handles it.
    var isDropped = false
    var stage = Stage.idle

    init(fd: Int32, id: ConnectionID, daemon: MicroDaemon) {
        self.fd = fd
        self.id = id
        self.daemon = daemon
    }

    /// Suspends the connection until there is an answer. When a connection is resumed, the library still expects what
    /// it expected before: here, more of the request. It would take an end of stream that has arrived in the meantime
    /// for a truncated request. So the first call lets the library ask again, after which it expects only the answer.
    func wait() {
        if hasBeenAsked { suspend() } else { hasBeenAsked = true }
    }

    /// Suspends the connection: the library makes no callbacks for it until `MicroDaemon.resume`.
    func suspend() {
        isSuspended = true
        MHD_suspend_connection(handle)
    }

    /// Whether the library is about to refuse the connection's request because of its head: the head is complete, but
    /// there was neither a callback nor an answer.
    var isRefused: Bool {
        stage == .idle && !isDropped && fb_mhd_head(handle) > 0 && fb_mhd_is_answered(handle) == 0
    }

    /// The library accepts a bare line feed as the end of a line, and takes a line that begins with a space as a
    /// continuation of the field name, where other parsers see a value or another request. Its parser leaves the head
    /// unchanged, except that it replaces delimiters with NULs:
    ///
    ///     GET /path HTTP/1.1 ␀␀ name ␀ value ␀␀ name ␀ value ␀␀ ␀␀
    ///
    /// - Returns: true if each line ends with CR LF, begins with a field name and contains no NUL.
    func hasCleanLines(from method: UnsafePointer<CChar>, version: UnsafePointer<CChar>) -> Bool {
        let head = UnsafeRawBufferPointer(start: method, count: fb_mhd_head(handle))
        /// The position after the next NUL; nil if there is none.
        func skip(_ start: Int) -> Int? {
            var place = start
            while place < head.count, head[place] != 0 { place += 1 }
            return place < head.count ? place + 1 : nil
        }
        func isNul(_ place: Int) -> Bool { place < head.count && head[place] == 0 }
        // One space after the method and one after the target.
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

    /// Iterates over the fields of the request's head.
    func forEachField(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        // Not `withoutActuallyEscaping`, which makes the binary depend on the length of this file's path.
        var fields: [Field] = []
        withUnsafeMutablePointer(to: &fields) {
            _ = MHD_get_connection_values_n(handle, .HEADER_KIND, visitField, UnsafeMutableRawPointer($0))
        }
        for field in fields { body(field.name, field.value) }
    }

    /// Passes the answer to the library.
    /// - Returns: false if the library is out of memory.
    func answer(_ answer: HTTP1Answer) -> Bool {
        stage = .answering
        let length = answer.length.map { UInt64($0) } ?? UInt64.max
        let context = Unmanaged.passUnretained(self).toOpaque()
        let response = MHD_create_response_from_callback(length, MicroDaemon.piece, readBody, context, nil)
        guard let response else { return false }
        // Must come first, because it makes the library forget which other headers there are.
        if answer.isLast { _ = MHD_add_response_header(response, "connection", "close") }
        // The answer to a HEAD request for a stream. If it were chunked, the library would send the end of a body,
        // which HEAD must not have.
        if answer.length == nil { fb_mhd_end_behind(response) }
        for (name, value) in answer.headers { _ = MHD_add_response_header(response, name, value) }
        let done = MHD_queue_response(handle, UInt32(answer.status), response)
        MHD_destroy_response(response)
        return done == .YES
    }
}

/// A header field in the library's memory.
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
