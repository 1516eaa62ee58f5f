// Connection+Requests: what only a client's connection has: requests, and the heads of responses.

import CNGHTTP2

extension Connection {
    /// Concurrent streams that the peer allows; almost unlimited until it sets a limit (RFC 9113, 6.5.2).
    var peerStreamLimit: Int {
        Int(nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// Whether the last stream id has been used.
    var isExhausted: Bool { nghttp2_session_get_next_stream_id(session) > UInt32(Int32.max) }

    /// Sends a request and returns its stream; nil if the peer accepts no more, or no id is left.
    func request(_ fields: HTTPFields, handle: UInt32, complete: Bool) -> UInt32? {
        guard phase == .open, !isDraining, !isClosing, streams.count < limits.maxStreams else { return nil }
        var id: Int32 = 0
        withFields(fields, status: nil) { list, count in
            guard !complete else {
                id = nghttp2_submit_request(session, nil, list, count, nil, nil)
                return
            }
            var provider = nghttp2_data_provider(source: nghttp2_data_source(), read_callback: onReadBody)
            id = nghttp2_submit_request(session, nil, list, count, &provider, nil)
        }
        // The ids are used up, or the peer has said that it accepts no more.
        guard id > 0 else { return nil }
        var stream = HTTPStream(id: UInt32(id))
        stream.handle = handle
        stream.announced = true
        stream.responded = true
        stream.finishing = complete
        streams.append(stream)
        lastStream = stream.id
        flood.receivedRequest()
        return stream.id
    }

    /// HEADERS from the peer: a response, an informational one before it, or trailers after its body.
    func receivedResponse(at index: Int, ended: Bool) {
        let stream = streams[index].id
        guard section.size <= limits.maxHeaderList else {
            flood.counters.tooLargeHeaders += 1
            let entry = discard(at: index)
            _ = nghttp2_submit_rst_stream(session, 0, Int32(bitPattern: stream), HTTP2Code.enhanceYourCalm.rawValue)
            events.append(.reset(stream: stream, handle: entry.handle, code: .enhanceYourCalm))
            return
        }
        guard let status = section.status else {
            events.append(.complete(stream: stream, handle: streams[index].handle, trailers: section.fields()))
            return
        }
        guard status >= 200 else { return }
        let head = ResponseHead(status: status, fields: section.fields())
        events.append(.response(stream: stream, handle: streams[index].handle, head: head, complete: ended))
    }

    /// Handles the notice that the server accepts no more requests. Requests above `last` have not been processed,
    /// whether they were sent or not.
    func closing(_ why: String, last: UInt32) {
        isClosing = true
        events.append(.closing(why))
        while streams.count > 0, streams[streams.count - 1].id > last {
            let entry = discard(at: streams.count - 1)
            _ = nghttp2_submit_rst_stream(session, 0, Int32(bitPattern: entry.id), HTTP2Code.cancel.rawValue)
            events.append(.reset(stream: entry.id, handle: entry.handle, code: .refusedStream))
        }
    }

    /// A frame was not sent after all: a request that waited until the peer announced that it accepts no more.
    func notSent(_ frame: nghttp2_frame) {
        guard role == .client, phase == .open, frame.hd.type == FrameHead.Kind.headers,
            frame.headers.cat == NGHTTP2_HCAT_REQUEST,
            let index = streams.find(UInt32(bitPattern: frame.hd.stream_id))
        else { return }
        let entry = discard(at: index)
        events.append(.reset(stream: entry.id, handle: entry.handle, code: .refusedStream))
    }
}
