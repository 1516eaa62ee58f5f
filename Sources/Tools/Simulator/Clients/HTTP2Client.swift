// HTTP2Client: a client that speaks HTTP/2: gRPC, and sometimes plain HTTP. This file sends its calls;
// HTTP2Client+Answers.swift handles responses, and HTTP2Link.swift frames and windows.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames
import RSocket

final class HTTP2Client: VirtualClient {
    /// A stream as a request and its response.
    final class Call {
        enum Form {
            /// gRPC calls.
            case subscribe, channel, single, control, list
            /// Plain HTTP requests: subscriptions in either format, single messages, credit.
            case events, lines, post, credit

            var isPlain: Bool { [.events, .lines, .post, .credit].contains(self) }
        }

        let form: Form
        let ledger: StreamLedger
        /// Received bytes of the body that have not been processed.
        var body: [UInt8] = []
        /// Bytes of the body known to contain no end of a record.
        var looked = 0
        /// The status, once the head of the response has arrived.
        var status: String?
        var isOver = false
        /// Whether the client ignores what arrives.
        var isForsaken = false
        /// For a subscription: the topic's epoch and the total credit, as last reported by the broker.
        var epoch: UInt64 = 0
        var credit: UInt64 = 0
        /// For a subscription over plain HTTP: its id, the losses before the next message, and how it ended.
        var id: String?
        var dropped: UInt64 = 0
        /// The position and topic of the next event, in a subscription to a pattern.
        var place: (epoch: UInt64, sequence: UInt64, topic: String)?
        var end: (error: String?, lost: UInt64)?

        init(_ form: Form, _ ledger: StreamLedger) {
            self.form = form
            self.ledger = ledger
        }
    }

    let wire: Wire
    private(set) var isOver = false
    let retain: Int
    let matches: Int
    let output: Int
    let isPaced: Bool
    let givesUp = true
    let canFire = false
    let journal: Journal
    let referee: Referee
    let chance: Chance
    private let trace: Trace
    private let learn: (Published) -> Void
    let link: HTTP2Link
    var calls: [UInt32: Call] = [:]
    /// Single messages whose requests have not ended.
    private var unended: [AcknowledgedLedger] = []
    private var nextStream: UInt32 = 1
    /// Whether time limits may be reached during the run.
    let isHurried: Bool

    init(
        _ wire: Wire, _ plan: Plan, _ chance: Chance, _ journal: Journal, _ referee: Referee, _ trace: Trace,
        learn: @escaping (Published) -> Void
    ) {
        self.wire = wire
        self.journal = journal
        self.referee = referee
        self.chance = chance
        self.trace = trace
        self.learn = learn
        retain = plan.limits.retain
        matches = plan.limits.matches
        output = plan.limits.output
        isHurried = plan.has(.leaps) || plan.has(.stalls)
        link = HTTP2Link(wire, plan, chance, referee)
        isPaced = !link.isWide || plan.has(.fragments)
        link.take = { [unowned self] in take($0) }
    }

    func freshStream() -> UInt32 {
        defer { nextStream += 2 }
        return nextStream
    }

    /// Does nothing: the request names the stream.
    func add(_ ledger: StreamLedger) {}
    func learnt(_ message: Published) { learn(message) }
    func lose() { isOver = true }

    // Requests

    private func begin(_ form: Call.Form, _ method: GRPCMethod, _ ledger: StreamLedger) {
        calls[ledger.stream] = Call(form, ledger)
        link.request(
            ledger.stream,
            [
                (":method", "POST"), (":scheme", "http"), (":authority", "broker"), (":path", method.path),
                ("te", "trailers"), ("content-type", "application/grpc"),
            ])
    }

    private func bytes(_ write: (inout ByteBuffer) -> Void) -> [UInt8] {
        var buffer = ByteBuffer()
        write(&buffer)
        return Array(buffer.readable)
    }

    // Subscribing

    func adapt(_ request: inout SubscribeRequest) {
        request.hasMeta = true
        request.isCumulative = false
    }

    func subscribe(_ ledger: SubscriberLedger, n: Int) {
        let request = ledger.request
        ledger.asks(n)
        if chance.isOne(in: 3) { return get(ledger, n: n) }
        var open = SubscribeOpen(topic: request.topic, requestN: UInt32(n))
        switch request.start {
        case .next: break
        case .all: open.start = .all
        case .last(let count): open.start = .last(UInt32(count))
        case .from(let sequence, let epoch): open.start = .from(sequence, epoch: epoch)
        case .since(let time): open.start = .since(time)
        }
        open.buffer = UInt32(request.buffer)
        open.gapFails = request.gapFails
        open.overflow = Overflow(name: request.policy)!
        begin(.subscribe, .subscribe, ledger)
        link.send(ledger.stream, bytes { open.append(to: &$0) }) { ledger.fed(n) }
    }

    func request(_ n: Int, _ ledger: StreamLedger) {
        // Acknowledgements and rows need no credit here.
        guard let ledger = ledger as? SubscriberLedger, let call = calls[ledger.stream] else { return }
        if call.form != .subscribe { return credit(n, ledger, call) }
        ledger.asks(n)
        if n == 0 {
            ledger.isMistaken = true
            return link.send(ledger.stream, framed(Proto.field(2, 0))) { ledger.isCancelFed = true }
        }
        link.send(ledger.stream, bytes { ClientRequests.appendCredit(UInt32(n), to: &$0) }) { ledger.fed(n) }
    }

    func halfClose(_ ledger: SubscriberLedger) -> Bool {
        guard calls[ledger.stream]?.form == .subscribe else { return false }
        ledger.isHalfClosed = true
        link.end(ledger.stream)
        return true
    }

    func cancel(_ ledger: StreamLedger) {
        ledger.isCancelled = true
        // If an unanswered publish is not in the topic by now, it never will be.
        if let ledger = ledger as? AcknowledgedLedger, !link.hasEnded(ledger.stream) {
            journal.withdrawn(ledger.number)
        }
        link.reset(ledger.stream)
        wire.whenRead { ledger.isCancelFed = true }
    }

    // Publishing

    /// Must not be called: a fire-and-forget publish has no response, but over HTTP every request has one.
    func fireAndForget(_ topic: String, _ number: Int) {
        preconditionFailure("This client has no fire-and-forget publish.")
    }

    private func properties(_ number: Int) -> MessageProperties {
        MessageProperties(contentType: journal.messages[number].hasMetadata ? ContentType.text(number) : "")
    }

    private func payload(_ number: Int) -> [UInt8] {
        Array(Journal.text(number, size: journal.messages[number].size).utf8)
    }

    func publish(_ topic: String, _ ledger: AcknowledgedLedger) {
        let text = payload(ledger.number)
        let properties = properties(ledger.number)
        if chance.isOne(in: 3) { return post(topic, text, contentType: properties.contentType, ledger) }
        begin(.single, .publishOne, ledger)
        let request = text.withUnsafeBytes { text in
            bytes { ClientRequests.appendPublishOne(topic: topic, text, properties, to: &$0) }
        }
        link.send(ledger.stream, request)
        endSoon(ledger)
    }

    /// Ends the request of a single message now or later; the broker has to wait for the end.
    func endSoon(_ ledger: AcknowledgedLedger) {
        if chance.isOne(in: 3) { unended.append(ledger) } else { link.end(ledger.stream) }
    }

    /// Opens a channel. The first message is sent after the opening and uses no credit. Losing a channel is not a
    /// failure here.
    func open(_ ledger: ChannelLedger, _ route: String, first: Int, n: Int) {
        ledger.isOpenedAlone = true
        ledger.asksForAll = true
        ledger.acknowledgementsAsked = .max
        begin(.channel, .publish, ledger)
        link.send(
            ledger.stream,
            bytes {
                ClientRequests.appendPublishOpen(
                    topic: ledger.topic, completesTopic: ledger.completesTopic, to: &$0)
            })
        send([first], ledger)
        if ledger.isComplete { link.end(ledger.stream) }
    }

    func send(_ numbers: [Int], _ ledger: ChannelLedger) {
        for number in numbers {
            ledger.sends(number)
            let request = payload(number).withUnsafeBytes { text in
                bytes { ClientRequests.appendMessage(text, properties(number), to: &$0) }
            }
            link.send(ledger.stream, request)
        }
    }

    func complete(_ ledger: ChannelLedger) {
        ledger.isComplete = true
        link.end(ledger.stream)
    }

    func fail(_ ledger: ChannelLedger, _ reason: String) {
        guard ledger.completesTopic else { return cancel(ledger) }
        ledger.isCancelled = true
        calls[ledger.stream]?.isForsaken = true
        link.send(ledger.stream, framed(Proto.field(3, reason)))
        link.end(ledger.stream)
    }

    // Others

    func control(_ call: TopicCall, of topic: String, _ ledger: CallLedger) {
        let request: ControlCall =
            switch call {
            case .complete: .completeTopic(topic)
            case .fail: .failTopic(topic, message: nil)
            case .delete: .deleteTopic(topic)
            }
        ask(.call(request), .control, ledger)
    }

    func list(_ route: String, _ ledger: ListLedger, n: Int) {
        ledger.asked = .max / 2
        ask(.list(BrokerList(rawValue: route)!), .list, ledger)
    }

    private func ask(_ request: AdminRequest, _ form: Call.Form, _ ledger: StreamLedger) {
        begin(form, request.method, ledger)
        link.send(ledger.stream, bytes { request.append(to: &$0) })
        link.end(ledger.stream)
    }

    var unsent: Int { link.unsent }

    func stir() {
        if unended.isEmpty || chance.isOne(in: 2) { return link.stir() }
        link.end(unended.removeFirst().stream)
    }

    func calm() {
        for ledger in unended { link.end(ledger.stream) }
        unended.removeAll()
        link.calm()
    }

    func endByGoAway() -> Bool {
        // Any code except NO_ERROR ends the connection at once.
        link.sendGoAway(chance.pick([1, 2, 8]))
        lose()
        return true
    }

    // Receiving

    func read(_ most: Int) {
        let count = Swift.min(most, wire.arrived)
        if count > 0 { trace.add(.take, wire.shard, count, "by \(wire.id.index)") }
        var inbox = ByteBuffer()
        wire.take(count, into: &inbox)
        link.read(Array(inbox.readable))
        guard wire.isClosed, wire.arrived == 0 else { return }
        referee.expect(
            !link.hasPart || wire.isReset || wire.isHalfClosed || isHurried,
            "connection \(wire.name) was closed in the middle of a frame")
        if let receivedGoAway = link.receivedGoAway {
            // The broker's limits may end connections; clients never break the protocol's rules.
            referee.expect(
                [0, 11].contains(receivedGoAway.code),
                "connection \(wire.name) was ended with HTTP/2 error \(receivedGoAway.code): \(receivedGoAway.text)")
        }
        lose()
    }
}
