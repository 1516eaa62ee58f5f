// Connection+Output: responses, and the loop that writes. Nghttp2 chooses the next stream and how much its windows
// allow; the sink reports how much there is. A DATA frame's bytes go from the sink's owner straight to the output.

import CNGHTTP2

/// The sink of one `produce`, type-erased because nghttp2's callbacks cannot be generic. Its functions capture nothing.
@usableFromInline
struct SinkPort {
    @usableFromInline let sink: UnsafeMutableRawPointer
    @usableFromInline let write: (UnsafeMutableRawPointer, UnsafeRawBufferPointer) -> Void
    @usableFromInline let body: (UnsafeMutableRawPointer, UInt32, UInt32, Int) -> (count: Int, drained: Bool)
    @usableFromInline let data: (UnsafeMutableRawPointer, UInt32, UInt32, UnsafeRawBufferPointer, Int) -> Void

    @inlinable
    init<Sink: HTTPSink & ~Copyable>(_ pointer: UnsafeMutablePointer<Sink>) {
        sink = UnsafeMutableRawPointer(pointer)
        write = { $0.assumingMemoryBound(to: Sink.self).pointee.write($1) }
        body = { $0.assumingMemoryBound(to: Sink.self).pointee.body(stream: $1, handle: $2, atMost: $3) }
        data = { $0.assumingMemoryBound(to: Sink.self).pointee.data(stream: $1, handle: $2, head: $3, count: $4) }
    }
}

extension Connection {
    // MARK: Responses

    func respond(_ stream: UInt32, status: Int, fields: HTTPFields, complete: Bool) {
        guard let index = streams.find(stream), !streams[index].responded else { return }
        streams[index].responded = true
        if complete { streams[index].finishing = true }
        withFields(fields, status: status) { list, count in
            if complete {
                _ = nghttp2_submit_response(session, Int32(bitPattern: stream), list, count, nil)
                return
            }
            var provider = nghttp2_data_provider(source: nghttp2_data_source(), read_callback: onReadBody)
            _ = nghttp2_submit_response(session, Int32(bitPattern: stream), list, count, &provider)
        }
    }

    /// Sends an informational response, 100 or 103 (RFC 9110, 15.2).
    func inform(_ stream: UInt32, status: Int) {
        guard let index = streams.find(stream), !streams[index].responded else { return }
        withFields([:], status: status) { list, count in
            _ = nghttp2_submit_headers(session, 0, Int32(bitPattern: stream), nil, list, count, nil)
        }
    }

    func bodyAvailable(_ stream: UInt32) {
        guard let index = streams.find(stream), streams[index].body == .idle else { return }
        streams[index].body = .ready
        // This fails harmlessly until the response's head has been sent; nghttp2 asks for the body after that anyway.
        _ = nghttp2_session_resume_data(session, Int32(bitPattern: stream))
    }

    func finish(_ stream: UInt32, trailers: HTTPFields?) {
        guard let index = streams.find(stream), streams[index].responded, !streams[index].finishing else { return }
        streams[index].finishing = true
        streams[index].trailers = trailers
        let id = Int32(bitPattern: stream)
        // A client can end only with DATA, even if that has to wait for the window.
        if role == .server && streams[index].body == .idle && (trailers != nil || room(at: index) == 0) {
            // Nothing is queued, so no DATA is needed, for which the peer may have left no window: trailers need none,
            // even if they are empty. They wait until the response's head has been sent.
            streams[index].trailers = nil
            submitTrailers(trailers ?? [:], id)
            return
        }
        if streams[index].body == .idle { streams[index].body = .ready }
        _ = nghttp2_session_resume_data(session, id)
    }

    func reset(_ stream: UInt32, _ code: HTTP2Code) {
        guard let index = streams.find(stream) else { return }
        discard(at: index)
        _ = nghttp2_submit_rst_stream(session, 0, Int32(bitPattern: stream), code.rawValue)
    }

    private func submitTrailers(_ trailers: HTTPFields, _ stream: Int32) {
        withFields(trailers, status: nil) { list, count in
            _ = nghttp2_submit_trailer(session, stream, list, count)
        }
    }

    /// Calls `body` with `fields` in nghttp2's form; nghttp2 copies them.
    func withFields(
        _ fields: HTTPFields, status: Int?, _ body: (UnsafePointer<nghttp2_nv>?, Int) -> Void
    ) {
        var text: (UInt8, UInt8, UInt8) = (0x32, 0x30, 0x30)
        if let status, (100...999).contains(status) {
            text = (UInt8(48 + status / 100), UInt8(48 + status / 10 % 10), UInt8(48 + status % 10))
        }
        let pseudo: StaticString = ":status"
        withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count + 1) { list in
            fields.bytes.withUnsafeBufferPointer { bytes in
                withUnsafeMutableBytes(of: &text) { digits in
                    // Nghttp2 does not write to names or values, although its types allow it.
                    var count = 0
                    if status != nil {
                        list[0] = nghttp2_nv(
                            name: UnsafeMutablePointer(mutating: pseudo.utf8Start),
                            value: digits.baseAddress!.assumingMemoryBound(to: UInt8.self),
                            namelen: pseudo.utf8CodeUnitCount, valuelen: 3, flags: 0)
                        count = 1
                    }
                    let base = UnsafeMutablePointer(mutating: bytes.baseAddress)
                    var start = 0
                    for end in fields.ends {
                        list[count] = nghttp2_nv(
                            name: base.map { $0 + start }, value: base.map { $0 + end.name },
                            namelen: end.name - start, valuelen: end.value - end.name, flags: 0)
                        start = end.value
                        count += 1
                    }
                    body(list.baseAddress, count)
                }
            }
        }
    }

    // MARK: Windows

    /// What the peer's windows allow on a stream; 0 if negative.
    private func room(at index: Int) -> Int {
        let stream = nghttp2_session_get_stream_remote_window_size(shown, Int32(bitPattern: streams[index].id))
        return max(0, Int(min(stream, nghttp2_session_get_remote_window_size(shown))))
    }

    func window(_ stream: UInt32) -> Int { streams.find(stream).map { room(at: $0) } ?? 0 }

    func awaitRoom(_ stream: UInt32) {
        if let index = streams.find(stream) { block(index) }
    }

    func room(_ stream: UInt32) -> Int {
        guard let index = streams.find(stream) else { return 0 }
        let room = room(at: index)
        if room == 0 { block(index) }
        return room
    }

    private func block(_ index: Int) {
        guard !streams[index].blocked else { return }
        streams[index].blocked = true
        blocked += 1
    }

    /// The peer's window has grown: the connection's (nil) or a stream's.
    func roomGrew(on stream: UInt32?) {
        guard blocked + held > 0, phase == .open else { return }
        if let stream {
            if let index = streams.find(stream) { unblock(index) }
        } else {
            hasRoomToTell = true
        }
    }

    /// Scans all streams once, however many frames enlarged the connection's window: a scan may find no stream with
    /// room.
    func reportRoom() {
        hasRoomToTell = false
        guard blocked + held > 0 else { return }
        work.add(streams.count * ReadingWork.stream)
        for index in 0..<streams.count { unblock(index) }
    }

    private func unblock(_ index: Int) {
        let room = room(at: index)
        if streams[index].body == .held && room >= limits.tinyData { release(index) }
        if streams[index].blocked && room > 0 {
            streams[index].blocked = false
            blocked -= 1
            events.append(.writable(stream: streams[index].id, handle: streams[index].handle))
        }
    }

    /// Lets a stream that was held because of its tiny window try again.
    private func release(_ index: Int) {
        streams[index].body = .ready
        held -= 1
        _ = nghttp2_session_resume_data(session, Int32(bitPattern: streams[index].id))
    }

    /// When to call `expire`; nil if it is not needed.
    var deadline: UInt64? { held > 0 ? flood.tiny.next ?? now : nil }

    func expire(now time: UInt64) {
        advance(to: time)
        guard held > 0 else { return }
        for index in 0..<streams.count where streams[index].body == .held { release(index) }
    }

    // MARK: The write loop

    var wantsOutput: Bool { phase != .finished && !isWritten && nghttp2_session_want_write(shown) != 0 }

    var isFinished: Bool {
        phase == .finished
            || phase == .open && nghttp2_session_want_read(shown) == 0 && nghttp2_session_want_write(shown) == 0
    }

    @usableFromInline
    func pump(_ port: UnsafePointer<SinkPort>, atMost limit: Int) -> Int {
        self.port = port
        defer { self.port = nil }
        produced = 0
        budget = limit
        while produced < limit && phase != .finished {
            if let trip { die(trip) }
            isPaused = false
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &bytes)
            if count < 0 {
                // Out of memory, or a bug: nothing sensible can be written after that.
                finish(
                    .fatal(HTTP2Error(.internalError, String(cString: nghttp2_strerror(Int32(clamping: count))))))
                phase = .finished
                break
            }
            if count == 0 && isPaused { continue }
            guard count > 0 else {
                isWritten = true
                break
            }
            // If these bytes are the GOAWAY that ends the connection, it is already finished and they are the last.
            write(UnsafeRawBufferPointer(start: bytes, count: count))
        }
        return produced
    }

    private func write(_ bytes: UnsafeRawBufferPointer) {
        guard let port else { return }
        produced += bytes.count
        guard settingsWritten || bytes.count < FrameHead.size else {
            writeSettings(bytes, port)
            return
        }
        port.pointee.write(port.pointee.sink, bytes)
    }

    /// Adds the setting that nghttp2 must not know of to our first SETTINGS frame, which is the first thing it writes.
    private func writeSettings(_ bytes: UnsafeRawBufferPointer, _ port: UnsafePointer<SinkPort>) {
        settingsWritten = true
        let length = bytes.u24(at: 0) + 6
        let most = UInt32(clamping: limits.maxStreams).bigEndian
        withUnsafeTemporaryAllocation(byteCount: bytes.count + 6, alignment: 1) { frame in
            frame.copyMemory(from: bytes)
            frame[0] = UInt8(truncatingIfNeeded: length >> 16)
            frame[1] = UInt8(truncatingIfNeeded: length >> 8)
            frame[2] = UInt8(truncatingIfNeeded: length)
            frame[bytes.count] = 0
            frame[bytes.count + 1] = UInt8(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue)
            frame.storeBytes(of: most, toByteOffset: bytes.count + 2, as: UInt32.self)
            port.pointee.write(port.pointee.sink, UnsafeRawBufferPointer(frame))
        }
        produced += 6
    }

    /// Decides what a DATA frame of `stream` contains. The windows allow `length` bytes.
    fileprivate func readBody(_ stream: Int32, _ length: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
        let deferred = Int(NGHTTP2_ERR_DEFERRED.rawValue)
        guard phase == .open, let port, let index = streams.find(UInt32(bitPattern: stream)) else { return deferred }
        guard streams[index].body == .ready else { return deferred }
        let most = min(length, max(budget - produced, HTTP2Limits.minDataFrame), HTTP2Limits.maxDataFrame)
        let answer = port.pointee.body(port.pointee.sink, streams[index].id, streams[index].handle, most)
        let count = max(0, min(answer.count, most))
        if count == 0 && !(answer.drained && streams[index].finishing) {
            streams[index].body = .idle
            return deferred
        }
        if count == length && count < limits.tinyData && !answer.drained && !flood.tiny.take(now: now) {
            streams[index].body = .held
            held += 1
            flood.counters.heldData += 1
            return deferred
        }
        if answer.drained {
            streams[index].body = .idle
            if streams[index].finishing { end(index, stream, flags) }
        }
        // Nghttp2 writes an empty frame by itself, since there are no bytes to fetch.
        if count > 0 { flags.pointee |= NGHTTP2_DATA_FLAG_NO_COPY.rawValue }
        return count
    }

    private func end(_ index: Int, _ stream: Int32, _ flags: UnsafeMutablePointer<UInt32>) {
        flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        guard let trailers = streams[index].trailers else { return }
        flags.pointee |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
        submitTrailers(trailers, stream)
        streams[index].trailers = nil
    }

    func sendData(_ stream: UInt32, _ head: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
        guard let port, let index = streams.find(stream) else {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
        }
        port.pointee.data(
            port.pointee.sink, stream, streams[index].handle,
            UnsafeRawBufferPointer(start: head, count: FrameHead.size), count)
        produced += FrameHead.size + count
        flood.sentData(count)
        // Nghttp2 charges the windows when this returns, so the remaining room is smaller by `count`.
        if streams[index].body == .ready && room(at: index) <= count { block(index) }
        if produced < budget { return 0 }
        isPaused = true
        return NGHTTP2_ERR_PAUSE.rawValue
    }
}

func onReadBody(
    _: OpaquePointer?, stream: Int32, buffer: UnsafeMutablePointer<UInt8>?, length: Int,
    flags: UnsafeMutablePointer<UInt32>?, source: UnsafeMutablePointer<nghttp2_data_source>?,
    user: UnsafeMutableRawPointer?
) -> Int {
    with(user) { $0.readBody(stream, length, flags!) }
}
