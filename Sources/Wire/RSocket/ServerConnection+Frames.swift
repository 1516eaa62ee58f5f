// ServerConnection+Frames: what each frame from a client means, according to RSocket 1.0 and to what clients really
// send. Frames that a client may send before it learns that a stream has ended are ignored, as are frames about things
// that the server does not have.

import Bytes
import ForebayWire

extension ServerConnection {
    /// How much of a frame to keep, decided from its header: all of a frame within the limits, only the header of one
    /// that will be ignored or refused.
    func bytesToKeep(of header: FrameHeader, length: Int) -> Int {
        let onlyHeader = Wire.headerSize
        if phase == .opening {
            guard header.stream == 0 else { return onlyHeader }
            switch header.type {
            case .setup: return length <= limits.maxSetup ? length : onlyHeader
            case .resume: return length <= limits.maxResume ? length : onlyHeader
            default: return onlyHeader
            }
        }
        switch header.type {
        case .payload, .requestResponse, .requestFNF, .requestStream, .requestChannel:
            // While memory is short, do not buffer a long frame that has not fully arrived.
            if let most = shortReassembly, length > most, unread < Wire.lengthSize + length {
                return onlyHeader
            }
            return length <= limits.maxMessageFrame ? length : onlyHeader
        case .requestN:
            return min(length, onlyHeader + 4)
        case .error:
            return min(length, onlyHeader + 4 + ConnectionLimits.maxErrorText)
        case .keepalive:
            return length <= onlyHeader + 8 + limits.maxKeepaliveData ? length : onlyHeader
        case .metadataPush:
            return header.stream == 0 && length <= onlyHeader + limits.maxMetadata ? length : onlyHeader
        case .setup, .lease, .cancel, .resume, .resumeOK, .ext, nil:
            return onlyHeader
        }
    }

    /// Handles one frame of `length` bytes, of which only `bytesToKeep` are present.
    mutating func receive(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer, length: Int) -> Event? {
        if phase == .opening { return receiveFirst(header, bytes, length: length) }
        switch header.type {
        case .payload: return receivePayload(header, bytes, length: length)
        case .requestResponse: return receiveRequest(.response, header, bytes, length: length)
        case .requestFNF: return receiveRequest(.fireAndForget, header, bytes, length: length)
        case .requestStream: return receiveRequest(.stream, header, bytes, length: length)
        case .requestChannel: return receiveRequest(.channel, header, bytes, length: length)
        case .requestN: return receiveRequestN(header, bytes)
        case .cancel: return receiveCancel(header.stream)
        case .error: return receiveError(header, bytes)
        case .keepalive: return receiveKeepalive(header, bytes, length: length)
        case .metadataPush:
            guard header.stream == 0 else { return nil }
            guard bytes.count == length else {
                return fatal(
                    .connectionError, word: .tooLarge,
                    "A METADATA_PUSH frame has \(length) bytes; at most \(limits.maxMetadata) of metadata are allowed.")
            }
            return .metadataPush(bytes.slice(Wire.headerSize..<bytes.count))
        case .setup, .lease, .resumeOK:
            // A second SETUP changes nothing, a LEASE permits requests that the broker never makes, and a RESUME_OK
            // answers a RESUME that it never sends.
            return nil
        case .resume:
            return fatal(
                .connectionError,
                "RESUME was sent after SETUP; send it as the first frame of a new connection.")
        case .ext, nil:
            if header.flags.contains(.ignore) { return nil }
            return fatal(
                .connectionError,
                "Frames of type \(header.typeName) are not supported; set the I flag to have them ignored.")
        }
    }

    // MARK: The first frame

    private mutating func receiveFirst(
        _ header: FrameHeader, _ bytes: UnsafeRawBufferPointer, length: Int
    ) -> Event? {
        guard header.stream == 0, header.type == .setup || header.type == .resume else {
            return fatal(
                .invalidSetup, "The first frame must be SETUP on stream 0; connect with an RSocket 1.0 client.")
        }
        if header.type == .resume { return receiveResume(bytes, length: length) }
        guard bytes.count == length else {
            return fatal(
                .connectionError, word: .tooLarge, "SETUP has \(length) bytes; at most \(limits.maxSetup) are allowed.")
        }
        let frame: Frame
        do {
            frame = try Frame.decode(bytes.bytes)
        } catch {
            return fatal(.invalidSetup, error.sentence)
        }
        guard case .setup(let setup) = frame.body else { return nil }
        guard setup.major == 1 else {
            return fatal(
                .unsupportedSetup,
                "RSocket \(setup.major).\(setup.minor) is not supported; use RSocket 1.0.")
        }
        guard !setup.lease else {
            return fatal(.unsupportedSetup, "LEASE is not supported; connect without the lease flag.")
        }
        let metadataMime = String(decoding: bytes[setup.metadataMime], as: UTF8.self)
        metadataForm = MetadataForm(mime: metadataMime)
        phase = .deciding
        return .setup(
            Setup(
                minor: setup.minor, keepalive: setup.keepalive, lifetime: setup.lifetime,
                metadataMime: metadataMime, dataMime: String(decoding: bytes[setup.dataMime], as: UTF8.self),
                resumeToken: setup.resumeToken.map { bytes.slice($0) },
                content: Content(setup.content, in: bytes)))
    }

    private mutating func receiveResume(_ bytes: UnsafeRawBufferPointer, length: Int) -> Event? {
        guard bytes.count == length else {
            return fatal(
                .rejectedResume,
                "RESUME has a token of more than \(limits.maxResumeToken) bytes; "
                    + "send the token that was sent in SETUP.")
        }
        do {
            guard case .resume(let fields) = try Frame.decode(bytes.bytes).body else { return nil }
            phase = .leaving
            return .resume(
                ResumeRequest(
                    token: bytes.slice(fields.token), lastReceivedServerPosition: fields.lastReceivedServerPosition,
                    firstAvailableClientPosition: fields.firstAvailableClientPosition))
        } catch {
            return fatal(.connectionError, error.sentence)
        }
    }

    // MARK: Frames of the connection

    private mutating func receiveKeepalive(
        _ header: FrameHeader, _ bytes: UnsafeRawBufferPointer, length: Int
    ) -> Event? {
        guard header.stream == 0 else { return nil }
        guard bytes.count == length else {
            return fatal(
                .connection(
                    .connectionError,
                    "A KEEPALIVE frame has \(length) bytes; at most \(limits.maxKeepaliveData) of data are allowed.",
                    bound: .keepaliveData))
        }
        switch decode(header, bytes) {
        case .frame(.keepalive(let respond, let position, let data)):
            return .keepalive(respond: respond, position: position, data: bytes.slice(data))
        case .frame: return nil
        case .event(let event): return event
        }
    }

    private mutating func receiveError(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer) -> Event? {
        let code: UInt32
        let message: UnsafeRawBufferPointer
        switch decode(header, bytes) {
        case .frame(.error(let number, let text)): (code, message) = (number, bytes.slice(text))
        case .frame: return nil
        case .event(let event): return event
        }
        guard header.stream != 0 else {
            // The error codes of a refused SETUP mean nothing when a client sends them.
            let ofSetup = ErrorCode.invalidSetup.rawValue...ErrorCode.rejectedResume.rawValue
            if ofSetup.contains(code) { return nil }
            phase = .closed
            return .closedByPeer(code: code, message: message)
        }
        guard let index = streams.find(header.stream) else { return nil }
        let entry = discard(at: index)
        guard entry.announced else { return nil }
        // Only a channel's requester has a half that can fail; from any other requester ERROR can only mean "stop".
        return entry.kind == .channel
            ? .error(stream: entry.id, handle: entry.handle, code: code, message: message)
            : .cancel(stream: entry.id, handle: entry.handle)
    }

    // MARK: Frames of a stream

    private mutating func receiveRequestN(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer) -> Event? {
        let n: UInt32
        switch decode(header, bytes) {
        case .frame(.requestN(let number)): n = number
        case .frame: return nil
        case .event(let event): return event
        }
        guard let index = streams.find(header.stream) else { return nil }
        let entry = streams[index]
        guard entry.kind == .stream || entry.kind == .channel, !entry.responderDone else { return nil }
        if entry.announced { return .requestN(stream: entry.id, handle: entry.handle, n: n) }
        // Demand that arrives before the rest of a fragmented request is added to the request's initial demand.
        guard n > 0 else { return refuse(at: index, .zeroDemand(entry.id)) }
        if let partial = reassembly.find(entry.id) {
            partial.initialN = min(partial.initialN + n, Wire.maxU31)
        }
        return nil
    }

    private mutating func receiveCancel(_ stream: UInt32) -> Event? {
        guard let index = streams.find(stream) else { return nil }
        let entry = discard(at: index)
        return entry.announced ? .cancel(stream: entry.id, handle: entry.handle) : nil
    }

    // MARK: Calls of the owner

    /// Sets the owner's index for a stream, which the stream's events carry from then on. Until then the index is
    /// `UInt32.max`.
    public mutating func setHandle(_ handle: UInt32, stream: UInt32) {
        if let index = streams.find(stream) { streams[index].handle = handle }
    }

    /// The owner's index for a stream; nil if the stream is not open or has none.
    public func handle(of stream: UInt32) -> UInt32? {
        streams.find(stream).flatMap { streams[$0].knownHandle }
    }

    /// Streams that are open, or whose request is being reassembled.
    public var streamCount: Int { streams.count }

    /// Records that we sent the end of our half: COMPLETE, or the answer to REQUEST_RESPONSE. The stream is removed
    /// once the requester's half has ended too.
    public mutating func responderDone(stream: UInt32) {
        guard let index = streams.find(stream) else { return }
        streams[index].responderDone = true
        if streams[index].requesterDone { discard(at: index) }
    }

    /// Stops the requester's half of a channel on which we sent CANCEL: its remaining frames are ignored.
    public mutating func cancelRequester(stream: UInt32) {
        guard let index = streams.find(stream) else { return }
        streams[index].requesterDone = true
        if streams[index].responderDone {
            discard(at: index)
        } else if streams[index].assembling {
            streams[index].assembling = false
            reassembly.remove(stream)
        }
    }

    /// Removes a stream on which we sent ERROR: both halves have ended, the id is free, and further frames on it are
    /// ignored.
    public mutating func closeStream(_ stream: UInt32) {
        if let index = streams.find(stream) { discard(at: index) }
    }

    /// Removes a stream and its unfinished message.
    @discardableResult
    mutating func discard(at index: Int) -> StreamEntry {
        let entry = streams.remove(at: index)
        if entry.assembling { reassembly.remove(entry.id) }
        return entry
    }

    /// Removes a stream and asks the owner to answer with an error on it.
    mutating func refuse(at index: Int, _ error: RSocketError) -> Event {
        let entry = discard(at: index)
        if entry.kind == .fireAndForget { return .drop(stream: entry.id, error) }
        return .refuse(stream: entry.id, handle: entry.knownHandle, error)
    }

    // MARK: Decoding

    enum Decoded {
        case frame(Frame.Body)
        /// The frame cannot be decoded; the value is the event to return, if any.
        case event(Event?)
    }

    mutating func decode(_ header: FrameHeader, _ bytes: UnsafeRawBufferPointer) -> Decoded {
        do {
            return .frame(try Frame.decode(bytes.bytes).body)
        } catch {
            return .event(header.flags.contains(.ignore) ? nil : fatal(error))
        }
    }
}

extension Content {
    init(_ ranges: Frame.Content, in bytes: UnsafeRawBufferPointer) {
        self.init(metadata: ranges.metadata.map { bytes.slice($0) }, data: bytes.slice(ranges.data))
    }
}

extension RSocketError {
    static func zeroDemand(_ stream: UInt32) -> RSocketError {
        .stream(stream, .invalid, "A demand of 0 was sent; request at least 1.")
    }
}
