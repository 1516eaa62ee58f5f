// RSocketClient: a client that speaks RSocket 1.0 over its wire.

import Bytes
import ForebayWire
import RSocket

/// Excerpts of the errors that may end a connection whose client makes no mistakes.
private let connectionErrors = [
    "Nothing was received for ", " resumable connection", "memory",
]

final class RSocketClient: VirtualClient {
    private(set) var wire: Wire
    private(set) var isOver = false
    let session: SessionLedger?
    private(set) var isAway = false
    /// Whether RESUME has been sent and not answered yet, or was refused.
    private var awaitsResume = false
    private var isRefused = false
    private var isLeaving = false
    let retain: Int
    let matches: Int
    let output: Int
    private let journal: Journal
    private let referee: Referee
    private let trace: Trace
    private let learn: (Published) -> Void
    /// Whether requests use composite metadata; otherwise the route is plain text.
    private let isComposite: Bool
    /// The size of the longest frame that the client sends, in bytes.
    private let fragment: Int
    private var ledgers: [UInt32: StreamLedger] = [:]
    private var nextStream: UInt32 = 1
    /// Whether time limits may be reached during the run.
    private let isHurried: Bool
    private var partial: [UInt32: (metadata: [UInt8]?, data: [UInt8])] = [:]
    private var inbox = ByteBuffer()
    /// Streams whose purpose is to use memory, and the bytes of those held open.
    private var asides: [StreamLedger] = []
    private var held = 0
    /// The error that ended the connection.
    private(set) var error: String?

    init(
        _ wire: Wire, _ session: SessionLedger?, _ plan: Plan, _ chance: Chance, _ journal: Journal,
        _ referee: Referee, _ trace: Trace, learn: @escaping (Published) -> Void
    ) {
        self.wire = wire
        self.session = session
        self.journal = journal
        self.referee = referee
        self.trace = trace
        self.learn = learn
        retain = plan.limits.retain
        matches = plan.limits.matches
        output = plan.limits.output
        isHurried = plan.has(.leaps) || plan.has(.stalls)
        isComposite = plan.has(.metadata) || chance.isOne(in: 2)
        fragment = plan.has(.fragments) ? chance.pick([64, 300, 1 << 20]) : 1 << 20
        var setup = SetupRequest()
        setup.metadataMime = isComposite ? MimeType.compositeMetadata : "text/plain"
        setup.lifetime = 0x7FFF_FFFF
        setup.resumeToken = session?.token
        wire.send { FrameWriter.setup(setup, into: &$0) }
        session?.begin(wire.sent)
    }

    func freshStream() -> UInt32 {
        defer { nextStream += 2 }
        return nextStream
    }

    func add(_ ledger: StreamLedger) { ledgers[ledger.stream] = ledger }

    func learnt(_ message: Published) { learn(message) }

    func lose() { isOver = true }

    // Sending

    func subscribe(_ ledger: SubscriberLedger, n: Int) {
        ledger.asks(n)
        request(ledger.request.route, nil) {
            FrameWriter.requestStream(
                stream: ledger.stream, initialN: UInt32(n), metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
        whenFed { ledger.fed(n) }
    }

    func request(_ n: Int, _ ledger: StreamLedger) {
        switch ledger {
        case let ledger as SubscriberLedger: ledger.asks(n)
        case let ledger as ChannelLedger: ledger.acknowledgementsAsked += n
        case let ledger as ListLedger: ledger.asked += n
        default: break
        }
        if n == 0 { ledger.isMistaken = true }
        send { FrameWriter.requestN(stream: ledger.stream, n: UInt32(n), into: &$0) }
        guard let subscriber = ledger as? SubscriberLedger else { return }
        whenFed { if n == 0 { subscriber.isCancelFed = true } else { subscriber.fed(n) } }
    }

    func cancel(_ ledger: StreamLedger) {
        ledger.isCancelled = true
        send { FrameWriter.cancel(stream: ledger.stream, into: &$0) }
        whenFed { ledger.isCancelFed = true }
    }

    func fireAndForget(_ topic: String, _ number: Int) {
        let stream = freshStream()
        request(topic, number) {
            FrameWriter.requestFNF(stream: stream, metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    func publish(_ topic: String, _ ledger: AcknowledgedLedger) {
        publish(topic, ledger.number, on: ledger.stream)
    }

    func publish(_ route: String, _ number: Int, on stream: UInt32) {
        request(route, number) {
            FrameWriter.requestResponse(stream: stream, metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    func open(_ ledger: ChannelLedger, _ route: String, first: Int, n: Int) {
        ledger.acknowledgementsAsked += n
        ledger.asksForAll = n == SubscriberLedger.everything
        ledger.sends(first)
        request(route, first) {
            FrameWriter.requestChannel(
                stream: ledger.stream, initialN: UInt32(n), complete: ledger.isComplete, metadata: $0, data: $1,
                fragment: fragment, into: &$2)
        }
    }

    func send(_ numbers: [Int], _ ledger: ChannelLedger) {
        for number in numbers {
            ledger.sends(number)
            let metadata = journal.messages[number].hasMetadata ? ContentType.entry(number) : nil
            payload(ledger.stream, metadata, number)
        }
    }

    private func payload(_ stream: UInt32, _ metadata: [UInt8]?, _ number: Int) {
        let data = Array(Journal.text(number, size: journal.messages[number].size).utf8)
        data.withUnsafeBytes { data in
            (metadata ?? []).withUnsafeBytes { metadata in
                send {
                    FrameWriter.payload(
                        stream: stream, next: true, complete: false, metadata: metadata.isEmpty ? nil : metadata,
                        data: data, fragment: fragment, into: &$0)
                }
            }
        }
    }

    func complete(_ ledger: ChannelLedger) {
        ledger.isComplete = true
        send {
            FrameWriter.payload(
                stream: ledger.stream, next: false, complete: true, metadata: nil,
                data: UnsafeRawBufferPointer(start: nil, count: 0), fragment: fragment, into: &$0)
        }
    }

    func fail(_ ledger: ChannelLedger, _ reason: String) {
        ledger.isCancelled = true
        send {
            FrameWriter.error(stream: ledger.stream, code: .applicationError, message: reason, into: &$0)
        }
    }

    func control(_ call: TopicCall, of topic: String, _ ledger: CallLedger) {
        request("$SYS.topic.\(call)?name=\(topic)", nil) {
            FrameWriter.requestResponse(stream: ledger.stream, metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    func list(_ route: String, _ ledger: ListLedger, n: Int) {
        ledger.asked += n
        request(route, nil) {
            FrameWriter.requestStream(
                stream: ledger.stream, initialN: UInt32(n), metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    // Holding memory

    func watch(_ ledger: WatchLedger, n: Int) {
        asides.append(ledger)
        request(ledger.title, nil) {
            FrameWriter.requestStream(
                stream: ledger.stream, initialN: UInt32(n), metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    /// Sends all fragments except the last of a request of `size` bytes, unless the broker need not accept that much.
    func hold(_ ledger: HeldLedger, _ size: Int) {
        held += size
        guard held <= 2 << 20, asides.count < 8 else { return }
        asides.append(ledger)
        var whole = ByteBuffer()
        [UInt8](repeating: 120, count: size).withUnsafeBytes {
            FrameWriter.requestResponse(
                stream: ledger.stream, metadata: UnsafeRawBufferPointer(start: nil, count: 0), data: $0,
                fragment: Swift.min(fragment, Swift.max(64, size / 4)), into: &whole)
        }
        while whole.count >= 3, case let length = whole.readable.u24(at: 0) + 3, length < whole.count {
            send { $0.append(UnsafeRawBufferPointer(rebasing: whole.readable.prefix(length))) }
            whole.consume(length)
        }
    }

    func calm() {
        for ledger in asides where ledger.isAwaited { cancel(ledger) }
        asides.removeAll()
    }

    /// Writes a request with its route, and the message with that number if there is one.
    private func request(
        _ route: String, _ number: Int?,
        _ write: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, inout ByteBuffer) -> Void
    ) {
        var metadata = Array(route.utf8)
        if isComposite {
            metadata =
                [0xFE, 0, UInt8((metadata.count + 1) >> 8), UInt8(truncatingIfNeeded: metadata.count + 1)]
                + [UInt8(metadata.count)] + metadata
            if let number, journal.messages[number].hasMetadata { metadata += ContentType.entry(number) }
        }
        let data = number.map { Array(Journal.text($0, size: journal.messages[$0].size).utf8) } ?? []
        metadata.withUnsafeBytes { metadata in
            data.withUnsafeBytes { data in send { write(metadata, data, &$0) } }
        }
    }

    /// Sends frames of a stream.
    private func send(_ write: (inout ByteBuffer) -> Void) {
        guard let session else { return wire.send(write) }
        session.send(by: isAway || awaitsResume ? nil : wire, write)
    }

    private func whenFed(_ body: @escaping () -> Void) {
        if let session { session.whenDealt(body) } else { wire.whenRead(nil, body) }
    }

    // Receiving

    func read(_ most: Int) {
        guard !isAway else { return }
        let count = Swift.min(most, wire.arrived)
        if count > 0 { trace.add(.take, wire.shard, count, "by \(wire.id.index)") }
        wire.take(count, into: &inbox)
        while inbox.count >= 3, inbox.count >= 3 + inbox.readable.u24(at: 0) {
            let length = inbox.readable.u24(at: 0)
            take(inbox.readable.slice(3..<3 + length))
            inbox.consume(3 + length)
        }
        if wire.isClosed, wire.arrived == 0 {
            // When a time limit expires, the broker closes the connection even in the middle of a frame.
            referee.expect(
                inbox.isEmpty || wire.isReset || wire.isHalfClosed || isHurried || session != nil,
                "connection \(wire.name) was closed in the middle of a frame")
            if session == nil || error != nil || isLeaving { lose() } else { breakOff() }
        }
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        guard let frame = try? Frame.decode(bytes.bytes) else {
            return referee.fail("connection \(wire.name) was sent a frame that cannot be decoded")
        }
        referee.expect(error == nil, "connection \(wire.name) was sent a frame after its end")
        if frame.stream == 0 { return takeOfConnection(frame, bytes) }
        if let session {
            referee.expect(!awaitsResume, "connection \(wire.name) was sent a frame of a stream before RESUME_OK")
            guard session.accepts(bytes) else { return }
        }
        guard let ledger = ledgers[frame.stream] else {
            return referee.fail("a frame arrived on stream \(frame.stream), which was not opened or takes no response")
        }
        switch frame.body {
        case .payload(let next, let complete, let content):
            var message = partial.removeValue(forKey: frame.stream) ?? (nil, [])
            if let metadata = content.metadata { message.metadata = (message.metadata ?? []) + bytes[metadata] }
            message.data += bytes[content.data]
            if frame.flags.contains(.follows) {
                partial[frame.stream] = message
                return
            }
            referee.expect(ledger.end == nil, "\(ledger.name) was sent a message after its end")
            if next { ledger.item(message.metadata, message.data) }
            if complete { ledger.ended(message.metadata, nil) }
        case .error(_, let text): ledger.ended(nil, String(decoding: bytes[text], as: UTF8.self))
        case .requestN(let n): ledger.granted(Int(n))
        default: referee.fail("\(ledger.name) was sent a frame of type \(frame.header.typeName)")
        }
    }

    private func end(_ text: String) {
        error = text
        referee.expect(
            connectionErrors.contains { text.contains($0) } && ErrorWord(beginning: text) != nil,
            "connection \(wire.name) was ended although its client did nothing wrong: \(text)")
    }

    private func takeOfConnection(_ frame: Frame, _ bytes: UnsafeRawBufferPointer) {
        switch frame.body {
        case .keepalive(let respond, let position, let data):
            session?.heard(position)
            if respond { acknowledge(respond: false, UnsafeRawBufferPointer(rebasing: bytes[data])) }
        case .resumeOK(let position) where awaitsResume && !isRefused:
            awaitsResume = false
            session?.resumed(at: position, by: wire)
        case .error(let code, let text):
            let text = String(decoding: bytes[text], as: UTF8.self)
            guard awaitsResume, let claim = wire.claim else { return end(text) }
            isRefused = true
            session?.refused(code, text, wire, claim)
            if claim.isRight { error = text }
        default: referee.fail("the connection was sent a frame of type \(frame.header.typeName)")
        }
    }

    // A session

    /// Reports the position up to which everything has been received, as KEEPALIVE does.
    func acknowledge(respond: Bool, _ data: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)) {
        guard !isAway else { return }
        let position = session?.acknowledge() ?? 0
        wire.send { FrameWriter.keepalive(respond: respond, position: position, data: data, into: &$0) }
        wire.marks.add(acknowledgement: position, at: wire.sent)
    }

    /// Loses the wire, with everything on it.
    func breakOff() {
        isAway = true
        awaitsResume = false
        inbox.removeAll()
    }

    /// Resumes on another wire.
    func comeBack(by wire: Wire, _ claim: ResumeClaim) {
        self.wire = wire
        isAway = false
        awaitsResume = true
        isRefused = false
        wire.claim = claim
        let token = claim.isNamed ? claim.session.token : claim.session.token.map { $0 ^ 1 }
        wire.send {
            FrameWriter.resume(
                token: token, lastReceivedServerPosition: claim.last, firstAvailableClientPosition: claim.first,
                into: &$0)
        }
        claim.session.comesBack(claim)
    }

    func leaves() { isLeaving = true }
}
