// Connection+Callbacks: called by nghttp2 while it reads and writes. The callbacks change state and queue events. They
// call nghttp2 only to submit frames, and never call the owner.

import Bytes
import CNGHTTP2

extension Connection {
    /// Creates nghttp2's session with our callbacks, options and SETTINGS.
    func makeSession() -> OpaquePointer {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders)
        nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, onInvalidFrame)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose)
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, onFrameSent)
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, onFrameNotSent)
        nghttp2_session_callbacks_set_send_data_callback(callbacks, onSendData)
        var option: OpaquePointer?
        nghttp2_option_new(&option)
        nghttp2_option_set_no_auto_window_update(option, 1)
        nghttp2_option_set_no_closed_streams(option, 1)
        nghttp2_option_set_max_outbound_ack(option, HTTP2Limits.maxWaitingAnswers)
        // Resets and CONTINUATIONs are limited by our own rules instead: see ResetLimit and ContinuationLimit.
        nghttp2_option_set_stream_reset_rate_limit(option, 1 << 40, 1 << 40)
        nghttp2_option_set_max_continuations(option, 1 << 30)
        var made: OpaquePointer?
        let user = Unmanaged.passUnretained(self).toOpaque()
        let result =
            role == .server
            ? nghttp2_session_server_new2(&made, callbacks, user, option)
            : nghttp2_session_client_new2(&made, callbacks, user, option)
        nghttp2_option_del(option)
        nghttp2_session_callbacks_del(callbacks)
        // This fails only when memory runs out, and then Swift's own allocations end the process too.
        precondition(result == 0 && made != nil, "nghttp2 could not create a session")
        submitSettings(made!)
        return made!
    }

    /// Submits our SETTINGS without SETTINGS_MAX_CONCURRENT_STREAMS: nghttp2 would end the connection of a peer that
    /// exceeds this limit, although refusing the stream is enough. The setting is added when SETTINGS are written.
    private func submitSettings(_ session: OpaquePointer) {
        func entry(_ id: nghttp2_settings_id, _ value: Int) -> nghttp2_settings_entry {
            nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: UInt32(clamping: value))
        }
        let settings = [
            entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, min(limits.streamWindow, Int(Int32.max))),
            entry(NGHTTP2_SETTINGS_MAX_FRAME_SIZE, min(max(limits.maxFrame, 1 << 14), 1 << 24 - 1)),
            entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.maxHeaderList),
            // Streams take turns whatever priorities a client sets (RFC 9113, 5.3.2; RFC 9218, 2.1). A client does not
            // accept pushes (RFC 9113, 8.4).
            role == .server
                ? entry(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1) : entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
        ]
        var result = nghttp2_submit_settings(session, 0, settings, settings.count)
        precondition(result == 0, "invalid SETTINGS: \(String(cString: nghttp2_strerror(result)))")
        let window = Int32(clamping: max(limits.connectionWindow, 65_535))
        result = nghttp2_session_set_local_window_size(session, 0, 0, window)
        precondition(result == 0, "invalid window: \(String(cString: nghttp2_strerror(result)))")
    }

    // MARK: Header sections

    fileprivate func beginHeaders(_ frame: nghttp2_frame) {
        section.clear()
        guard frame.headers.cat == NGHTTP2_HCAT_REQUEST else { return }
        let id = UInt32(bitPattern: frame.hd.stream_id)
        guard streams.count < limits.maxStreams else {
            flood.counters.refused += 1
            // The stream had its own window, which the peer may use up before learning of the refusal.
            flood.streamEnded(window: freshWindow)
            noteStreamError(id)
            _ = nghttp2_submit_rst_stream(session, 0, Int32(bitPattern: id), HTTP2Code.refusedStream.rawValue)
            return
        }
        streams.append(HTTPStream(id: id))
        var equal = nghttp2_extpri(urgency: UInt32(NGHTTP2_EXTPRI_DEFAULT_URGENCY), inc: 1)
        _ = nghttp2_session_change_extpri_stream_priority(session, Int32(bitPattern: id), &equal, 1)
    }

    fileprivate func addHeader(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) -> Int32 {
        section.add(name: name, value: value, limit: limits.maxHeaderList)
        work.add(name.count + value.count + HeaderSection.fieldSize)
        guard section.size / HTTP2Limits.headerBombFactor > limits.maxHeaderList else { return 0 }
        if trip == nil {
            trip = .limit(
                .headerBomb,
                "A header section has more than \(HTTP2Limits.headerBombFactor) times the allowed "
                    + "\(limits.maxHeaderList) bytes; send fewer or shorter fields.")
        }
        // Skip the rest of the section.
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }

    private func receivedHeaders(_ frame: nghttp2_frame) {
        let id = UInt32(bitPattern: frame.hd.stream_id)
        guard let index = streams.find(id) else { return }
        let ended = frame.hd.flags & FrameHead.endStream != 0
        if ended { streams[index].remoteDone = true }
        guard role == .server else { return receivedResponse(at: index, ended: ended) }
        let isTooLarge = section.size > limits.maxHeaderList
        guard frame.headers.cat == NGHTTP2_HCAT_REQUEST else {
            guard !streams[index].finishing, streams[index].announced, ended else { return }
            events.append(
                .complete(
                    stream: id, handle: streams[index].handle, trailers: isTooLarge ? nil : section.fields()))
            return
        }
        flood.receivedRequest()
        guard !isTooLarge else {
            flood.counters.requests -= 1
            flood.counters.tooLargeHeaders += 1
            noteStreamError(id)
            respond(id, status: 431, fields: [:], complete: true)
            return
        }
        streams[index].announced = true
        events.append(.request(stream: id, head: section.head(), complete: ended))
    }

    // MARK: Bodies

    fileprivate func receivedData(_ stream: UInt32, _ bytes: UnsafeRawBufferPointer) {
        flood.receivedData()
        guard let index = streams.find(stream), role == .client || !streams[index].finishing else {
            flood.counters.lateBytes += UInt64(bytes.count)
            _ = nghttp2_session_consume(session, Int32(bitPattern: stream), bytes.count)
            return
        }
        streams[index].unconsumed += bytes.count
        events.append(.data(stream: stream, handle: streams[index].handle, bytes: bytes))
    }

    private func receivedDataFrame(_ frame: nghttp2_frame) {
        let id = UInt32(bitPattern: frame.hd.stream_id)
        guard frame.hd.flags & FrameHead.endStream != 0 else {
            if frame.hd.length > 0 && frame.hd.length == frame.data.padlen, let error = flood.receivedEmptyData() {
                trip = trip ?? error
            }
            return
        }
        flood.receivedData()
        guard let index = streams.find(id) else { return }
        streams[index].remoteDone = true
        if role == .client || !streams[index].finishing {
            events.append(.complete(stream: id, handle: streams[index].handle, trailers: nil))
        }
    }

    // MARK: Complete frames

    fileprivate func received(_ frame: nghttp2_frame) {
        switch frame.hd.type {
        case FrameHead.Kind.data: receivedDataFrame(frame)
        case FrameHead.Kind.headers: receivedHeaders(frame)
        case FrameHead.Kind.settings:
            if frame.hd.flags & FrameHead.ack == 0 {
                isOpened = true
                // Nghttp2 has visited every stream.
                work.add(streams.count * ReadingWork.stream)
                roomGrew(on: nil)
            } else {
                isAcknowledged = true
            }
        case FrameHead.Kind.windowUpdate:
            roomGrew(on: frame.hd.stream_id == 0 ? nil : UInt32(bitPattern: frame.hd.stream_id))
        case FrameHead.Kind.ping:
            guard frame.hd.flags & FrameHead.ack != 0 else { return }
            let data = frame.ping.opaque_data
            let number = withUnsafeBytes(of: data) { $0.bigEndian(at: 0, as: UInt64.self) }
            events.append(.pong(number))
        case FrameHead.Kind.goAway: receivedGoAway(frame.goaway)
        default: break
        }
    }

    private func receivedGoAway(_ frame: nghttp2_goaway) {
        // After a GOAWAY without an error, the peer opens no more streams, but the existing ones continue.
        guard frame.error_code != HTTP2Code.noError.rawValue else {
            if role == .client { closing(text(frame), last: UInt32(bitPattern: frame.last_stream_id)) }
            return
        }
        finish(.closedByPeer(HTTP2Error(HTTP2Code(rawValue: frame.error_code), text(frame))))
    }

    private func text(_ frame: nghttp2_goaway) -> String {
        let bytes = UnsafeBufferPointer(
            start: frame.opaque_data, count: min(frame.opaque_data_len, HTTP2Limits.maxPeerText))
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Ends

    fileprivate func noteStreamError(_ stream: UInt32) {
        if let index = streams.find(stream) {
            guard !streams[index].failed else { return }
            streams[index].failed = true
        }
        if let error = flood.streamError(now: now) { trip = trip ?? error }
    }

    fileprivate func closed(_ stream: UInt32, _ code: UInt32) {
        guard phase == .open, let index = streams.find(stream) else { return }
        let entry = discard(at: index)
        guard entry.announced else { return }
        events.append(
            (role == .server ? entry.localDone : entry.remoteDone)
                ? .closed(stream: stream, handle: entry.handle)
                : .reset(stream: stream, handle: entry.handle, code: HTTP2Code(rawValue: code)))
    }

    fileprivate func sent(_ frame: nghttp2_frame) {
        switch frame.hd.type {
        case FrameHead.Kind.headers:
            flood.sentHeaders()
            // Do not count an informational response, which precedes the owner's response.
            if role == .server, let index = streams.find(UInt32(bitPattern: frame.hd.stream_id)),
                streams[index].responded
            {
                streams[index].headSent = true
            }
            sentEnd(frame)
        case FrameHead.Kind.data: sentEnd(frame)
        case FrameHead.Kind.resetStream:
            // Nghttp2 resets a stream without notice for some errors. Streams reset by the owner are already gone.
            let id = UInt32(bitPattern: frame.hd.stream_id)
            if let index = streams.find(id), !streams[index].localDone { noteStreamError(id) }
        case FrameHead.Kind.goAway where frame.goaway.error_code != HTTP2Code.noError.rawValue:
            if phase == .dying {
                phase = .finished
            } else {
                // Nghttp2 itself found an error of the connection.
                finish(.fatal(HTTP2Error(HTTP2Code(rawValue: frame.goaway.error_code), text(frame.goaway))))
            }
        default: break
        }
    }

    /// A frame that ends our half has been sent. If the peer's half is still open, ask it to stop (RFC 9113, 8.1).
    private func sentEnd(_ frame: nghttp2_frame) {
        guard frame.hd.flags & FrameHead.endStream != 0,
            let index = streams.find(UInt32(bitPattern: frame.hd.stream_id))
        else { return }
        streams[index].localDone = true
        guard role == .server, !streams[index].remoteDone else { return }
        _ = nghttp2_submit_rst_stream(session, 0, frame.hd.stream_id, HTTP2Code.noError.rawValue)
    }
}

// MARK: C callbacks

/// Calls `body` with the callback's connection. It is alive during a callback, so it is not retained.
@inline(__always)
func with<Result>(_ user: UnsafeMutableRawPointer?, _ body: (Connection) -> Result) -> Result {
    Unmanaged<Connection>.fromOpaque(user!)._withUnsafeGuaranteedRef(body)
}

private func onBeginHeaders(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.beginHeaders(frame!.pointee) }
    return 0
}

private func onHeader(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, name: UnsafePointer<UInt8>?, nameCount: Int,
    value: UnsafePointer<UInt8>?, valueCount: Int, flags: UInt8, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) {
        $0.addHeader(
            name: UnsafeRawBufferPointer(start: name, count: nameCount),
            value: UnsafeRawBufferPointer(start: value, count: valueCount))
    }
}

private func onData(
    _: OpaquePointer?, flags: UInt8, stream: Int32, bytes: UnsafePointer<UInt8>?, count: Int,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.receivedData(UInt32(bitPattern: stream), UnsafeRawBufferPointer(start: bytes, count: count)) }
    return 0
}

private func onFrame(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.received(frame!.pointee) }
    return 0
}

private func onInvalidFrame(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, code: Int32, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.noteStreamError(UInt32(bitPattern: frame!.pointee.hd.stream_id)) }
    return 0
}

private func onStreamClose(
    _: OpaquePointer?, stream: Int32, code: UInt32, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.closed(UInt32(bitPattern: stream), code) }
    return 0
}

private func onFrameSent(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.sent(frame!.pointee) }
    return 0
}

private func onFrameNotSent(
    _: OpaquePointer?, frame: UnsafePointer<nghttp2_frame>?, code: Int32, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.notSent(frame!.pointee) }
    return 0
}

private func onSendData(
    _: OpaquePointer?, frame: UnsafeMutablePointer<nghttp2_frame>?, head: UnsafePointer<UInt8>?, count: Int,
    source: UnsafeMutablePointer<nghttp2_data_source>?, user: UnsafeMutableRawPointer?
) -> Int32 {
    with(user) { $0.sendData(UInt32(bitPattern: frame!.pointee.hd.stream_id), head!, count) }
}
