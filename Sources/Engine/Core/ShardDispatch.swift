// ShardDispatch: handles messages from other shards.

final class ShardDispatch: ShardPart {
    let connections: ConnectionTable
    let topics: TopicTable
    let reports: Reports
    let forwarding: Forwarding
    let losses: PublishLosses
    let events: Events
    let views: ViewTable
    let notices: PublisherNotices
    let ownership: TopicOwnership
    let subscribing: Subscribing
    let followers: PatternFollowers
    let attachment: ViewAttachment
    let intake: PublishIntake
    let listRequests: ListRequests
    let calls: ControlRequests
    let statistics: BrokerStatistics
    let inputs: ConnectionInputs

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ topics: TopicTable, _ reports: Reports,
        _ forwarding: Forwarding, _ losses: PublishLosses, _ events: Events, _ views: ViewTable,
        _ notices: PublisherNotices, _ ownership: TopicOwnership, _ subscribing: Subscribing,
        _ followers: PatternFollowers, _ attachment: ViewAttachment,
        _ intake: PublishIntake,
        _ listRequests: ListRequests, _ calls: ControlRequests, _ statistics: BrokerStatistics,
        _ inputs: ConnectionInputs
    ) {
        self.connections = connections
        self.topics = topics
        self.reports = reports
        self.forwarding = forwarding
        self.losses = losses
        self.events = events
        self.views = views
        self.notices = notices
        self.ownership = ownership
        self.subscribing = subscribing
        self.followers = followers
        self.attachment = attachment
        self.intake = intake
        self.listRequests = listRequests
        self.calls = calls
        self.statistics = statistics
        self.inputs = inputs
        super.init(context)
    }

    /// Messages from other shards, in the order in which each shard sent its own.
    func receive(_ messages: [ShardMessage], now: Instant) {
        for message in messages {
            work.spent += Work.messages
            open(message.content, now: now)
        }
    }

    private func open(_ content: ShardMessage.Content, now: Instant) {
        switch content {
        case .attach(let name, let shard, let account, let connection):
            reportProcessed(MessageBatch.envelope, shard, connection)
            ownership.attach(name, from: shard, account, now: now)
        case .detach(let epoch, let shard, let past): ownership.unlink(epoch, shard, past, now: now)
        case .waiting(let count, let name, let shard):
            ownership.noteWaiting(count, for: name, on: shard, now: now)

        case .match(let request): followers.match(request, now: now)
        case .matchBegun(let id):
            forwarding.begun()
            subscribing.patterns.requests.begun()
            if let connection = connections.find(id) { inputs.resume(connection, now: now) }
        case .matchDone(let id, let bytes): processed(bytes, of: id, hasBegun: true, now: now)
        case .withdraw(let subscription): followers.withdraw(subscription)
        case .unmatch(let pattern, let shard): followers.unmatch(pattern, shard: shard)
        case .rejoin(let epoch, let subscription): followers.rejoin(epoch, subscription, now: now)
        case .matched(let subscription, let matches):
            subscribing.patterns.take(matches, for: subscription, now: now)
            if matches.load > 0 { send(.made(matches.load, shard: index), to: matches.owner) }

        case .attached(let name, let view):
            attachment.attached(name, view, now: now)
            if !view.wasRequested { send(.made(1, shard: index), to: owner(of: name)) }
        case .made(let count, let shard): followers.links.made(count, on: shard, now: now)
        case .attachRefused(let name, let refusal): attachment.attachRefused(name, refusal)
        case .advance(let epoch, let advance):
            guard let view = views[epoch: epoch] else { return }
            view.advance(advance, now: now)
            subscribing.advanced(view, now: now)

        case .publish(let key, let request):
            reportProcessed(request.message.weight, key.shard, request.connection)
            intake.open(key, request, now: now)
        case .items(let key, let connection, let batch):
            reportProcessed(batch.weight, key.shard, connection)
            intake.take(batch, from: key, now: now)
        case .frames(let key, let connection, let batch):
            reportProcessed(batch.weight, key.shard, connection)
            intake.take(batch, from: key, now: now)
        case .publisherEnded(let key, let name, let end):
            intake.ended(key, of: name, end, now: now)
        case .fireAndForget(let name, let connection, let shard, let batch, let account):
            reportProcessed(batch.weight, shard, connection)
            intake.takeFire(batch, name: name, account, now: now)

        case .notice(let key, let notice): notices.receive(notice, key.handle)
        case .processed(let id, let bytes): processed(bytes, of: id, hasBegun: false, now: now)

        case .call(let key, let connection, let call):
            reportProcessed(ControlRequest.weight, key.shard, connection)
            calls.perform(call, for: .stream(key), now: now)
        case .answer(let key, let result): calls.answer(key, result)
        case .credit(let key, let id, let n, let user):
            calls.answer(key, subscribing.give(n, to: id, of: user, now: now))
        case .listPage(let page, let shard):
            let (rows, next) = listRequests.rows(of: page.list, after: page.after, for: page.principal, now: now)
            send(.listRows(rows, next: next), to: shard)
        case .listRows(let rows, let next): listRequests.listed(rows, next, now: now)

        case .report(let report, let shard): take(report, from: shard, now: now)
        case .reportHeard(let shard): reports.heard(by: shard)
        case .stats(let shard, let counters): statistics.take(counters, from: shard)
        }
    }

    /// Another shard has processed a connection's request. The next one may follow.
    private func processed(_ bytes: Int, of id: ConnectionID, hasBegun: Bool, now: Instant) {
        let connection = connections.find(id)
        forwarding.processed(bytes, of: connection, hasBegun: hasBegun)
        if let connection { inputs.resume(connection, now: now) }
    }

    /// Reports to another shard that its connection's request has been processed.
    func reportProcessed(_ weight: Int, _ shard: Int, _ connection: ConnectionID) {
        send(.processed(connection, bytes: weight), to: shard)
    }

    /// Processes another shard's report.
    private func take(_ report: Report, from shard: Int, now: Instant) {
        for (epoch, progress) in report.progress { topics[epoch: epoch]?.heard(progress, from: shard, now: now) }
        for (topic, losses) in report.losses { topics[topic]?.losses.value.add(losses) }
        for event in report.events { events.publishSystem(SystemTopic.events, event, now: now) }
        send(.reportHeard(by: index), to: shard)
    }
}
