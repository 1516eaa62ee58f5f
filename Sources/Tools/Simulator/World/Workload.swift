// Workload: what clients do in a run, drawn one act at a time.

import Core

final class Workload {
    let plan: Plan
    let chance: Chance
    let broker: Broker
    let journal: Journal
    let examiner: Examiner
    let referee: Referee
    let trace: Trace
    private(set) var clients: [any VirtualClient] = []
    private(set) var subscribers: [SubscriberLedger] = []
    private(set) var channels: [ChannelLedger] = []
    var singles: [StreamLedger] = []
    var numbered: [NumberedPublisher] = []
    /// The largest message, in bytes.
    static let largestMessage = 140_000
    /// The latest message of each topic that clients know to be acknowledged.
    private var known: [String: Place] = [:]

    init(
        _ plan: Plan, _ chance: Chance, _ broker: Broker, _ journal: Journal, _ examiner: Examiner,
        _ referee: Referee, _ trace: Trace
    ) {
        self.plan = plan
        self.chance = chance
        self.broker = broker
        self.journal = journal
        self.examiner = examiner
        self.referee = referee
        self.trace = trace
    }

    /// Does something that clients do, or nothing if what was drawn is not possible now.
    func act() {
        let act = chance.below(36)
        trace.add(.act, act)
        if plan.has(.trickle), chance.below(4) > 0 { return trickle() }
        if plan.has(.overload), chance.below(3) > 0 { return overload() }
        if plan.has(.resume), chance.isOne(in: 5) { return actOnSessions() }
        if plan.has(.times), chance.isOne(in: 12) { return broker.setClock(by: chance.pick([-1, 1]) * span()) }
        if plan.has(.patterns), chance.isOne(in: 12) { return subscribeToPattern() }
        if plan.has(.numbers), chance.isOne(in: 6) { return publishNumbered() }
        switch act {
        case 0...2 where subscribers.count { $0.isOpen } < plan.subscriptions: subscribe()
        case 3...7: if let ledger = any(subscribers) { ask(ledger) }
        case 8 where plan.has(.cancels): if let ledger = any(subscribers) { cancel(ledger) }
        case 9 where plan.has(.cancels):
            if let ledger = chance.isOne(in: 2) ? any(channels) as StreamLedger? : any(singles) { cancel(ledger) }
        case 10 where plan.has(.stalls): if let client = anyClient() { stall(client) }
        case 11 where plan.has(.resets) && chance.isOne(in: 4): if let client = anyClient() { lose(client) }
        case 12 where plan.has(.halfCloses) && chance.isOne(in: 4):
            if let client = anyClient() { client.wire.isHalfClosed = true }
        case 13 where plan.has(.rejoining): rejoin()
        case 14 where plan.has(.mistakes) && chance.isOne(in: 6):
            if let ledger = any(subscribers) { ledger.client.request(0, ledger) }
        case 15 where plan.has(.lists) && chance.isOne(in: 3): list()
        case 16 where plan.has(.ends) && chance.isOne(in: 5): control(chance.isOne(in: 2) ? .complete : .fail)
        case 17 where plan.has(.deletion) && chance.isOne(in: 4): control(.delete)
        case 18...21 where plan.has(.acknowledged): publish()
        case 22...24 where plan.has(.fireAndForget): fireAndForget()
        case 25 where plan.has(.channels): openChannel()
        case 26 where plan.has(.channels): if let ledger = any(channels) { finish(ledger) }
        case 27...28 where plan.has(.http2): if let client = anyClient() { client.stir() }
        default: if let ledger = any(channels) { send(ledger) }
        }
    }

    /// Publishes more than is requested, so that waiting messages form ranges and the first ones are dropped.
    private func trickle() {
        if chance.isOne(in: 3) {
            if let ledger = any(subscribers) { ask(ledger) }
        } else if plan.has(.fireAndForget) {
            fireAndForget()
        } else if plan.has(.acknowledged) {
            publish()
        } else if let ledger = any(channels) {
            send(ledger)
        }
    }

    private func any<L: StreamLedger>(_ ledgers: [L]) -> L? {
        let open = ledgers.filter { $0.isOpen && !$0.client.wire.isHalfClosed }
        return open.isEmpty ? nil : chance.pick(open)
    }

    func anyClient() -> (any VirtualClient)? {
        let open = clients.filter { !$0.isOver && !$0.wire.isHalfClosed }
        return open.isEmpty ? nil : chance.pick(open)
    }

    /// One of the clients, or a new one.
    func client() -> (any VirtualClient)? {
        let open = clients.count { !$0.isOver }
        if open > 0, open >= plan.connections || chance.below(4) > 0, let client = anyClient() { return client }
        return connect()
    }

    /// - Parameter mayResume: whether the client may have a session, because of which it may be refused.
    func connect(mayResume: Bool = true) -> (any VirtualClient)? {
        let isHTTP = plan.has(.http2) && chance.isOne(in: 2)
        guard let wire = broker.open(on: chance.below(plan.shards), isHTTP ? .http : .rsocket) else { return nil }
        let session = mayResume && !isHTTP ? session(wire) : nil
        let learn: (Published) -> Void = { [unowned self] in self.learn($0) }
        let client: any VirtualClient =
            isHTTP
            ? HTTP2Client(wire, plan, chance, journal, referee, trace, learn: learn)
            : RSocketClient(wire, session, plan, chance, journal, referee, trace, learn: learn)
        clients.append(client)
        if plan.has(.overload), mayResume { deafen(client) }
        return client
    }

    private func learn(_ message: Published) {
        guard let place = message.place else { return }
        if known[message.topic]?.epoch != place.epoch || known[message.topic]!.sequence < place.sequence {
            known[message.topic] = place
        }
    }

    // Subscribers

    func subscribe() { subscribe(request(chance.pick(plan.topics))) }

    private func subscribeToPattern() {
        guard subscribers.count(where: { $0.isOpen }) < plan.subscriptions else { return }
        var request = request(chance.pick([">", ">", "*", "c.*", "c.>", "*.d", "f.*.h"]))
        request.isPattern = true
        if request.policy == "block" { request.policy = "drop-oldest" }
        if case .from = request.start { request.start = .next }
        subscribe(request)
    }

    private func request(_ topic: String) -> SubscribeRequest {
        var request = SubscribeRequest(topic: topic)
        request.policy = chance.pick(plan.policies)
        request.buffer = chance.pick(plan.buffers)
        request.hasMeta = chance.below(4) > 0
        request.isCumulative = chance.isOne(in: 5)
        request.gapFails = chance.isOne(in: 8)
        switch chance.below(8) {
        case 0...1: request.start = .all
        case 2...3: request.start = .last(UInt64(chance.size(upTo: 30)))
        case 4: request.start = .from(UInt64(chance.size(upTo: 60)), epoch: nil)
        default: break
        }
        if plan.has(.times), chance.isOne(in: 3) {
            request.start = .since(.at(broker.now.wall - chance.pick([-1, 1, 1, 1]) * span()))
        }
        return request
    }

    /// Nanoseconds between two moments of a run.
    private func span() -> Int64 { Int64(chance.size(upTo: chance.pick([10, 100_000, 1_000_000_000]))) }

    private func subscribe(_ request: SubscribeRequest) {
        guard let client = client() else { return }
        var request = request
        client.adapt(&request)
        let ledger =
            request.isPattern
            ? PatternLedger(client, request, journal, referee, mayLose: plan.mayLose, mayLag: plan.shards > 1)
            : SubscriberLedger(client, request, journal, referee)
        ledger.known = known[request.topic]
        subscribers.append(ledger)
        examiner.add(ledger)
        client.subscribe(ledger, n: demand())
    }

    private func demand() -> Int {
        if plan.has(.trickle) { return 1 }
        if plan.has(.overload), chance.below(4) > 0 { return SubscriberLedger.everything }
        return chance.isOne(in: 8) ? SubscriberLedger.everything : chance.pick([1, 1, 2, 3, chance.size(upTo: 40)])
    }

    private func ask(_ ledger: SubscriberLedger) { ledger.client.request(demand(), ledger) }

    private func cancel(_ ledger: StreamLedger) {
        if let ledger = ledger as? SubscriberLedger, chance.isOne(in: 3), ledger.client.halfClose(ledger) { return }
        ledger.client.cancel(ledger)
    }

    /// Resumes a subscription that received messages with their places and has ended.
    func rejoin() {
        let gone = subscribers.filter { !$0.isOpen && $0.last != nil && $0.request.hasMeta }
        guard !gone.isEmpty, subscribers.count(where: { $0.isOpen }) < plan.subscriptions else { return }
        let ledger = chance.pick(gone)
        var request = ledger.request
        request.start = .from(ledger.last!.sequence + 1, epoch: ledger.last!.epoch)
        subscribe(request)
    }

    // Publishers

    /// A new message; for a channel, `behind` is the number of messages sent before it.
    func message(
        _ strength: Published.Strength, _ topic: String, channel: ChannelLedger? = nil, behind: Int = 0,
        isNumbered: Bool = false
    ) -> Int {
        var size = chance.pick([0, 0, 12, 100])
        if plan.has(.fragments), chance.isOne(in: 20) { size = chance.pick([1000, 66_000, Workload.largestMessage]) }
        if plan.has(.shortLogs) {
            // Some messages need much of the available room, while smaller ones after them would fit.
            if chance.isOne(in: 6) { size = Swift.min(plan.limits.retainBytes / 2, 1500) }
            size = Swift.min(size, 2 * plan.limits.retainBytes)
        }
        if plan.has(.overload) { size = overloadSize() }
        let hasMetadata = plan.has(.metadata) && chance.isOne(in: 3)
        let message = Published(
            topic: topic, strength: strength, channel: channel?.channel ?? 0,
            index: (channel?.sent.count ?? 0) + behind, size: size, hasMetadata: hasMetadata,
            isNumbered: isNumbered)
        return journal.publish(message)
    }

    func fireAndForget() {
        guard let client = client() else { return }
        guard client.canFire else { return publish(by: client) }
        let topic = chance.pick(plan.topics)
        for _ in 0..<chance.size(upTo: 6) {
            let number = message(.fireAndForget, topic)
            journal.sends(number, client)
            client.fireAndForget(topic, number)
        }
    }

    func publish() {
        if let client = client() { publish(by: client) }
    }

    private func publish(by client: any VirtualClient) {
        let topic = chance.pick(plan.topics)
        for _ in 0..<chance.size(upTo: 4) {
            let ledger = AcknowledgedLedger(client, message(.acknowledged, topic), journal, referee)
            // Over HTTP/2 each publish is a separate stream, without order between them.
            if client is RSocketClient { journal.sends(ledger.number, client) }
            singles.append(ledger)
            client.publish(topic, ledger)
        }
    }

    private func openChannel() {
        guard channels.count(where: { $0.isOpen }) < 6, let client = client() else { return }
        let topic = chance.pick(plan.topics)
        let completes = plan.has(.ends) && chance.isOne(in: 5)
        let failsOnLoss = plan.has(.ends) && chance.isOne(in: 8)
        let ledger = ChannelLedger(client, topic, completesTopic: completes, journal, referee)
        channels.append(ledger)
        ledger.isComplete = chance.isOne(in: 8)
        let first = message(.channel, topic, channel: ledger)
        let options = [completes ? "complete=true" : nil, failsOnLoss ? "on-loss=fail" : nil].compactMap { $0 }
        let route = options.isEmpty ? topic : topic + "?" + options.joined(separator: "&")
        client.open(ledger, route, first: first, n: chance.pick([1, 2, 5, SubscriberLedger.everything]))
    }

    private func send(_ ledger: ChannelLedger) {
        guard !ledger.isComplete else { return }
        guard ledger.credit > 0 else {
            if chance.isOne(in: 3), !ledger.asksForAll { ledger.client.request(chance.size(upTo: 5), ledger) }
            return
        }
        let count = Swift.min(ledger.credit, chance.pick([1, 3, chance.size(upTo: 60)]))
        let numbers = (0..<count).map { message(.channel, ledger.topic, channel: ledger, behind: $0) }
        ledger.client.send(numbers, ledger)
    }

    private func finish(_ ledger: ChannelLedger) {
        guard !ledger.isComplete, chance.isOne(in: 3) else { return }
        if plan.has(.ends), chance.isOne(in: 4) {
            ledger.client.fail(ledger, "it was drawn")
        } else {
            ledger.client.complete(ledger)
        }
    }

    // Others

    private func control(_ call: TopicCall) {
        guard let client = client() else { return }
        let topic = chance.pick(plan.topics)
        let ledger = CallLedger(client, call, topic, journal, referee)
        singles.append(ledger)
        if call == .delete { journal.deleted.insert(topic) }
        client.control(call, of: topic, ledger)
    }

    private func list() {
        guard let client = client() else { return }
        let what = chance.pick(["$SYS.topics", "$SYS.subscriptions", "$SYS.connections"])
        let ledger = ListLedger(client, what, referee)
        singles.append(ledger)
        client.list(what, ledger, n: chance.pick([1, 2, SubscriberLedger.everything]))
    }

    private func stall(_ client: any VirtualClient) {
        client.wire.isStalled.toggle()
        client.wire.capacity = chance.isOne(in: 2) ? .max : chance.size(upTo: chance.pick([100, 5000]))
    }

    func lose(_ client: any VirtualClient) {
        if chance.isOne(in: 3), client.endByGoAway() { return }
        broker.reset(client.wire)
        client.lose()
    }

    /// Lets some client read something, unless it is stalled.
    func read() {
        guard let client = anyReader() else { return }
        let most = plan.has(.splits) ? chance.size(upTo: chance.pick([10, 500, 1 << 20])) : Int.max
        client.read(most)
    }

    private func anyReader() -> (any VirtualClient)? {
        let open = clients.filter {
            !$0.isOver && !$0.isAway && !$0.wire.isStalled && ($0.wire.arrived > 0 || $0.wire.isClosed)
        }
        return open.isEmpty ? nil : chance.pick(open)
    }
}
