// The server side of one RSocket connection: any bytes, in any pieces. The pieces do not affect the result, and nothing
// grows beyond its limit.

import Bytes

@testable import RSocket

func fuzzRSocket(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let rule = input.byte()
    let cuts = input.byte()
    let needsSetup = input.byte() & 1 == 0
    var setup = ByteBuffer()
    if needsSetup { FrameWriter.setup(into: &setup) }
    setup.append(input.rest)
    var whole = Listener(rule)
    whole.feed(setup.readable)
    var pieces = FuzzInput(setup.readable)
    var cut = Listener(rule)
    var random = UInt64(cuts)
    while !pieces.isEmpty {
        random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        cut.feed(pieces.take(1 + Int(random >> 59)))
    }
    let (one, other) = (whole.transcript, cut.transcript)
    mustHold(one == other, "pieces give \(other), the whole \(one)")
    let (position, otherPosition) = (whole.received, cut.received)
    mustHold(position == otherPosition, "pieces give \(otherPosition), the whole \(position)")
}

private struct Listener: ~Copyable {
    private static let limits: ConnectionLimits = {
        var limits = ConnectionLimits()
        limits.maxPayload = 300
        limits.maxMetadata = 100
        limits.maxKeepaliveData = 20
        limits.maxSetup = 300
        limits.maxHeld = 2000
        limits.maxReassembly = 3000
        limits.maxPartials = 5
        limits.maxStreams = 8
        return limits
    }()

    private var connection = ServerConnection(limits: Listener.limits)
    private(set) var transcript: [String] = []
    /// How the owner reacts to events.
    private var rule: UInt64
    private var clock: UInt64 = 0
    private var hasLeft = false

    /// The number of bytes in the processed frames of streams.
    var received: UInt64 { connection.received }

    init(_ rule: UInt8) { self.rule = UInt64(rule) }

    mutating func feed(_ bytes: UnsafeRawBufferPointer) {
        guard !hasLeft else { return }
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { memory.deallocate() }
        memory.copyMemory(from: bytes)
        clock += 1
        connection.feed(UnsafeRawBufferPointer(memory), now: clock)
        while let event = connection.next() { take(event) }
        let (held, streams) = (connection.bufferedBytes, connection.streamCount)
        // The longest frame built is an ERROR of 4,096 bytes of text, in a buffer whose size is a power of two.
        mustHold(held <= 2 * Listener.limits.maxReassembly + 8192, "\(held) bytes are held")
        mustHold(streams <= Listener.limits.maxStreams + Listener.limits.maxPartials, "\(streams) streams are open")
    }

    private mutating func take(_ event: Event) {
        switch event {
        case .payloads(let run, let handle):
            // Recorded as if the items had arrived one by one.
            var count = 0
            run.forEach {
                transcript.append("item \(run.stream) \(handle) true false \(Array($0))")
                count += 1
                return true
            }
            mustHold(count == run.count, "a run has another count")
        case .payload(let stream, let handle, let next, let complete, let content):
            let metadata = content.metadata.map { " \(Array($0))" } ?? ""
            transcript.append("item \(stream) \(handle) \(next) \(complete)\(metadata) \(Array(content.data))")
            if complete { act(stream) }
        case .setup(let setup):
            transcript.append("setup \(setup.metadataMime) \(setup.lifetime) \(Array(setup.content.data))")
            connection.acceptSetup()
        case .resume(let request):
            mustHold(request.token.count <= Listener.limits.maxResumeToken, "a token is beyond its limit")
            transcript.append(
                "resume \(Array(request.token)) \(request.lastReceivedServerPosition) "
                    + "\(request.firstAvailableClientPosition)")
            // The bytes that follow RESUME belong to the session that it asks for.
            _ = connection.takeRest()
            hasLeft = true
        case .request(let stream, let kind, let n, let complete, let content):
            let metadata = content.metadata.map { " \(Array($0))" } ?? ""
            transcript.append("request \(stream) \(kind) \(n) \(complete)\(metadata) \(Array(content.data))")
            mustHold(n > 0 && content.data.count <= Listener.limits.maxPayload, "a request is beyond its limits")
            act(stream)
        case .requestN(let stream, let handle, let n):
            transcript.append("n \(stream) \(handle) \(n)")
            act(stream)
        case .cancel(let stream, let handle): transcript.append("cancel \(stream) \(handle)")
        case .error(let stream, _, let code, let text): transcript.append("error \(stream) \(code) \(Array(text))")
        case .keepalive(_, _, let data): transcript.append("keepalive \(Array(data))")
        case .metadataPush(let metadata): transcript.append("push \(Array(metadata))")
        case .refuse(let stream, let handle, let error):
            transcript.append("refuse \(stream) \(handle ?? 0) \(error.message)")
            mustHold(error.scope == .stream(stream), "\(error) belongs to another stream")
        case .drop(let stream, let error): transcript.append("drop \(stream) \(error.message)")
        case .fatal(let error):
            transcript.append("fatal \(error.message)")
            mustHold(error.scope == .connection, "\(error) ends the connection")
        case .closedByPeer(let code, let text): transcript.append("closed \(code) \(Array(text))")
        }
    }

    private mutating func act(_ stream: UInt32) {
        rule = rule &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        switch rule >> 60 {
        case 0: connection.responderDone(stream: stream)
        case 1: connection.closeStream(stream)
        case 2: connection.cancelRequester(stream: stream)
        case 3...7: connection.setHandle(stream &* 3, stream: stream)
        case 8: connection.responderDone(stream: stream ^ 2)
        default: break
        }
    }
}
