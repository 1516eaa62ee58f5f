// ServerConnection+Messages: requests and PAYLOADs, whole or in fragments.

import Bytes
import ForebayWire

extension ServerConnection {
    // MARK: Requests

    mutating func receiveRequest(
        _ kind: Interaction, _ header: FrameHeader, _ bytes: UnsafeRawBufferPointer, length: Int
    ) -> Event? {
        let stream = header.stream
        guard stream != 0 else {
            return fatal(
                .connectionError,
                "A frame of type \(header.typeName) was sent on stream 0; use a separate stream for each request.")
        }
        guard bytes.count == length else { return refuseRequest(stream, kind, tooLong(header, length)) }
        var initialN: UInt32 = 1
        let ranges: Frame.Content
        switch decode(header, bytes) {
        case .frame(.requestResponse(let content)), .frame(.requestFNF(let content)): ranges = content
        case .frame(.requestStream(let n, let content)): (initialN, ranges) = (n, content)
        case .frame(.requestChannel(let n, _, let content)): (initialN, ranges) = (n, content)
        case .frame: return nil
        case .event(let event): return event
        }
        let content = Content(ranges, in: bytes)
        if let error = fault(kind, stream, initialN, content) { return refuseRequest(stream, kind, error) }

        // C is valid only on a last fragment, so F is ignored if C is set.
        let complete = kind != .channel || header.flags.contains(.complete)
        let follows = header.flags.contains(.follows) && !(kind == .channel && complete)
        var entry = StreamEntry(id: stream, kind: kind, requesterDone: complete, announced: !follows)
        guard follows else {
            if kind != .fireAndForget { streams.insert(entry) }
            return .request(stream: stream, kind: kind, initialN: initialN, complete: complete, content: content)
        }
        let partial = Partial(stream: stream, since: now, initialN: initialN)
        if let error = noRoom(for: content, in: partial, isNew: true) { return refuseRequest(stream, kind, error) }
        entry.assembling = true
        streams.insert(entry)
        reassembly.add(partial)
        reassembly.append(content, to: partial)
        return nil
    }

    /// What is wrong with a request whose frame is well-formed.
    private func fault(
        _ kind: Interaction, _ stream: UInt32, _ initialN: UInt32, _ content: Content
    ) -> RSocketError? {
        if streams.find(stream) != nil {
            return .stream(
                stream, .rejected, word: .protocol,
                "A request was sent on stream \(stream), which is in use; use a new id for each request.")
        }
        if stream & 1 == 0 {
            return .stream(stream, .invalid, "A request was sent on stream \(stream); use odd stream ids.")
        }
        if initialN == 0 { return .zeroDemand(stream) }
        if let error = tooLarge(stream, metadata: content.metadata?.count ?? 0, data: content.data.count) {
            return error
        }
        if streams.count >= limits.maxStreams && kind != .fireAndForget {
            return .stream(
                stream, .rejected,
                "The connection has \(counted(limits.maxStreams, "stream")), the maximum; end some, or open "
                    + "another connection.",
                bound: .streams)
        }
        return nil
    }

    /// Refuses a request. If its id is in use, that stream ends too: the client applies an ERROR on the id to that
    /// stream, and both sides must agree.
    private mutating func refuseRequest(_ stream: UInt32, _ kind: Interaction, _ error: RSocketError) -> Event {
        var handle: UInt32?
        var answered = kind != .fireAndForget
        if let index = streams.find(stream) {
            let entry = discard(at: index)
            handle = entry.knownHandle
            answered = answered || entry.kind != .fireAndForget
        }
        return answered ? .refuse(stream: stream, handle: handle, error) : .drop(stream: stream, error)
    }

    // MARK: Items and later fragments

    mutating func receivePayload(
        _ header: FrameHeader, _ bytes: UnsafeRawBufferPointer, length: Int
    ) -> Event? {
        guard let index = streams.find(header.stream) else { return nil }
        let entry = streams[index]
        guard entry.assembling || !entry.requesterDone else { return nil }
        guard bytes.count == length else { return refuse(at: index, tooLong(header, length)) }
        let frame: (next: Bool, complete: Bool, content: Content)
        switch decode(header, bytes) {
        case .frame(.payload(let next, let complete, let ranges)):
            frame = (next, complete, Content(ranges, in: bytes))
        case .frame: return nil
        case .event(let event): return event
        }
        let follows = header.flags.contains(.follows) && !frame.complete
        if entry.assembling { return continueMessage(at: index, frame.content, frame.complete, follows: follows) }

        let content = frame.content
        if let error = tooLarge(entry.id, metadata: content.metadata?.count ?? 0, data: content.data.count) {
            return refuse(at: index, error)
        }
        if follows {
            let partial = Partial(stream: entry.id, since: now, initialN: 0)
            if let error = noRoom(for: content, in: partial, isNew: true) { return refuse(at: index, error) }
            reassembly.add(partial)
            reassembly.append(content, to: partial)
            streams[index].assembling = true
            return nil
        }
        if frame.complete { requesterDone(at: index) }
        // Neither N nor C: rsocket-py sends this for an empty item.
        return .payload(
            stream: entry.id, handle: entry.handle, next: frame.next || !frame.complete, complete: frame.complete,
            content: content)
    }

    private mutating func continueMessage(
        at index: Int, _ content: Content, _ complete: Bool, follows: Bool
    ) -> Event? {
        let entry = streams[index]
        guard let partial = reassembly.find(entry.id) else { return nil }
        if let error = noRoom(for: content, in: partial, isNew: false) { return refuse(at: index, error) }
        reassembly.append(content, to: partial)
        if follows { return nil }

        reassembly.remove(entry.id)
        delivered = partial
        streams[index].assembling = false
        if entry.announced {
            if complete { requesterDone(at: index) }
            return .payload(
                stream: entry.id, handle: entry.handle, next: true, complete: complete, content: partial.content)
        }
        if entry.kind == .fireAndForget {
            streams.remove(at: index)
        } else {
            streams[index].announced = true
            if complete { streams[index].requesterDone = true }
        }
        return .request(
            stream: entry.id, kind: entry.kind, initialN: partial.initialN,
            complete: complete || entry.requesterDone, content: partial.content)
    }

    private mutating func requesterDone(at index: Int) {
        streams[index].requesterDone = true
        if streams[index].responderDone { streams.remove(at: index) }
    }

    // MARK: Limits

    /// The error if memory is short and the connection's unfinished messages have reached their reduced limit.
    private func outOfMemory(_ stream: UInt32) -> RSocketError {
        .stream(
            stream, .rejected,
            "The broker's memory is full, and a connection may have at most \(shortReassembly ?? 0) bytes of "
                + "unfinished messages; try again later.",
            bound: .memory)
    }

    private func tooLong(_ header: FrameHeader, _ length: Int) -> RSocketError {
        if length <= limits.maxMessageFrame { return outOfMemory(header.stream) }
        return .stream(
            header.stream, .rejected,
            "A frame of type \(header.typeName) has \(length) bytes; at most \(limits.maxPayload) of data and "
                + "\(limits.maxMetadata) of metadata are allowed.", bound: .payload)
    }

    private func tooLarge(_ stream: UInt32, metadata: Int, data: Int) -> RSocketError? {
        if data > limits.maxPayload {
            return .stream(
                stream, .rejected,
                "A message has at least \(data) bytes of data; at most \(limits.maxPayload) are "
                    + "allowed.", bound: .payload)
        }
        if metadata > limits.maxMetadata {
            return .stream(
                stream, .rejected,
                "A message has at least \(metadata) bytes of metadata; at most \(limits.maxMetadata) are allowed.",
                bound: .metadata)
        }
        return nil
    }

    /// Why a fragment cannot be added to a message; nil if it can.
    private func noRoom(for content: Content, in partial: Partial, isNew: Bool) -> RSocketError? {
        let metadata = content.metadata?.count ?? 0
        if metadata > 0 && partial.dataCount > 0 {
            return .stream(
                partial.stream, .invalid, "A fragment has metadata after data; send all metadata first.")
        }
        if let error = tooLarge(
            partial.stream, metadata: (partial.metadataCount ?? 0) + metadata,
            data: partial.dataCount + content.data.count)
        {
            return error
        }
        let more = metadata + content.data.count + (isNew ? ConnectionLimits.partialOverhead : 0)
        if let most = shortReassembly, reassembly.cost + more > most { return outOfMemory(partial.stream) }
        if reassembly.cost + more > limits.maxReassembly || (isNew && reassembly.count >= limits.maxPartials) {
            return .stream(
                partial.stream, .rejected,
                "The connection has more than \(limits.maxReassembly) bytes of unfinished messages, or more than "
                    + "\(limits.maxPartials) of them; send fewer at a time.",
                bound: .reassembly)
        }
        return nil
    }
}
