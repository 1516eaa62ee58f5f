// ShardQuery: queries that the admin listener sends to a shard from its own thread. Each is answered within one turn,
// except for control calls that end a stored topic: these are answered once the store has recorded the end. A query
// examines at most a few thousand slots of a table; to see everything, the caller continues where the last answer
// stopped.

import ForebayWire
import Replay

/// A query to one shard.
public enum ShardQuery: Sendable {
    /// Checks that the shard responds.
    case ping
    case survey(Survey)
    /// The items of a list as JSON, from a slot on, at most `most`.
    case page(BrokerList, after: Int, most: Int)
    case control(ControlRequest)
}

/// A shard's answer.
public enum ShardAnswer: Sendable {
    case present
    case survey(SurveyPart)
    /// `next`: where the next page begins; nil at the end of the list.
    case page([String], next: Int?)
    case done(String)
    case refused(Refusal)
}

/// A traversal of one of a shard's tables.
public struct Survey: Sendable {
    public enum Table: Sendable {
        /// The topics currently tracked as the busiest.
        case busiest
        case topics, connections, subscriptions
    }

    public var table: Table
    /// The slot to begin at: 0, or where the previous part ended.
    public var after: Int
    /// The maximum number of items returned with all their figures. `pairs` is the maximum number of pairs of a topic
    /// and a policy, each of which is returned with the longest time that one of its subscriptions has been behind.
    public var most: Int
    public var pairs = 0
    public var order: Order
    /// Only items with this text in the name of their topic, user or policy, or in their client's address.
    public var find = Needle("")
    /// Whether to return only slow subscriptions.
    public var slow = false
    /// Whether to include the broker's own topics.
    public var system = true
    /// Items after this rank are not wanted.
    public var last: Rank?
    /// Topics whose subscriptions are summed up individually.
    public var topics: Set<String>

    public init(_ table: Table, after: Int = 0, most: Int, order: Order, topics: Set<String> = []) {
        self.table = table
        self.after = after
        self.most = most
        self.order = order
        self.topics = topics
    }

    /// Slots that one part covers.
    public static let places = 1024

    func isWanted(_ topic: String) -> Bool { (system || !TopicName.isSystem(topic)) && find.isIn(topic) }
}

/// How long subscriptions to a topic under a policy have been behind; the longest time counts.
public struct BehindPair: Sendable {
    public var topic: String
    public var policy: Overflow
    public var behind: UInt64

    static func isBefore(_ a: BehindPair, _ b: BehindPair) -> Bool {
        (a.behind, b.topic, b.policy.rawValue) > (b.behind, a.topic, a.policy.rawValue)
    }

    /// The pairs that have been behind for longest, without duplicates.
    public static func merged(_ pairs: [BehindPair], most: Int) -> [BehindPair] {
        var seen: Set<String> = []
        let sorted = pairs.sorted(by: isBefore).filter { seen.insert("\($0.policy.rawValue)\($0.topic)").inserted }
        return Array(sorted.prefix(most))
    }
}

/// The result of one part of a survey.
public struct SurveyPart: Sendable {
    /// Where to continue; nil at the end.
    public var next: Int?
    /// The counters of the whole shard.
    public var counters: ShardCounters
    public var topicSums = TopicSums()
    public var topics: [TopicStatistics] = []
    public var connections = ConnectionSums()
    public var subscriptionSums = SubscriptionSums()
    public var subscriptions: [SubscriptionStatistics] = []
    public var byTopic: [String: SubscriptionSums] = [:]
    /// The number of matching topics or subscriptions, including those not returned.
    public var found = 0
    public var pairs: [BehindPair] = []

    public init(counters: ShardCounters) { self.counters = counters }
}

final class Surveys: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let topics: TopicTable
    let views: ViewTable
    let listRequests: ListRequests
    let calls: ControlRequests
    let statistics: BrokerStatistics

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ topics: TopicTable,
        _ views: ViewTable, _ listRequests: ListRequests, _ calls: ControlRequests, _ statistics: BrokerStatistics
    ) {
        self.streams = streams
        self.connections = connections
        self.topics = topics
        self.views = views
        self.listRequests = listRequests
        self.calls = calls
        self.statistics = statistics
        super.init(context)
    }

    /// - Parameter job: identifies the query in `Effects.answers`.
    func answer(_ query: ShardQuery, job: UInt64, now: Instant) {
        switch query {
        case .ping: effects.answers.append((job, .present))
        case .survey(let survey): effects.answers.append((job, .survey(answer(survey, now: now))))
        case .page(let list, let after, let most):
            let (rows, next) = listRequests.rows(
                of: list, after: Swift.max(0, after), most: most, for: .operator, now: now)
            effects.answers.append((job, .page(rows.map(\.json), next: next)))
        case .control(let call): calls.perform(call, for: .listener(job: job), now: now)
        }
    }

    private func answer(_ survey: Survey, now: Instant) -> SurveyPart {
        var part = SurveyPart(counters: statistics.currentCounters())
        let bound: Int
        switch survey.table {
        case .busiest: bound = topics.busiest.topics.count
        case .topics: bound = topics.placeBound
        case .connections: bound = connections.bound
        case .subscriptions: bound = streams.bound
        }
        let start = Swift.min(Swift.max(0, survey.after), bound)
        let end = Swift.min(start + Survey.places, bound)
        switch survey.table {
        case .busiest: addBusiest(start..<end, survey, to: &part, now: now)
        case .topics: addTopics(start..<end, survey, to: &part, now: now)
        case .connections: addConnections(start..<end, to: &part)
        case .subscriptions: addSubscriptions(start..<end, survey, to: &part, now: now)
        }
        work.spent += (end - start) / Work.placesPerUnit
        part.next = end < bound ? end : nil
        return part
    }

    private func addBusiest(_ places: Range<Int>, _ survey: Survey, to part: inout SurveyPart, now: Instant) {
        var top = FirstRows<Topic>(most: survey.most, last: survey.last)
        for topic in topics.busiest.topics[places] {
            top.add(topic, Rank(first: topic.activity.order, second: 0, name: topic.name, id: topic.epoch))
        }
        part.topics = top.all().map { TopicStatistics($0, now: now) }
    }

    private func addTopics(_ places: Range<Int>, _ survey: Survey, to part: inout SurveyPart, now: Instant) {
        var top = FirstRows<TopicStatistics>(most: survey.most, last: survey.last)
        for place in places {
            guard let topic = topics.topic(at: place) else { continue }
            let figures = TopicStatistics(topic, now: now)
            part.topicSums.add(figures)
            guard survey.most > 0, survey.isWanted(topic.name) else { continue }
            part.found += 1
            guard survey.order != .trouble || figures.isInTrouble else { continue }
            top.add(figures, figures.rank(by: survey.order))
        }
        part.topics = top.all()
    }

    private func addConnections(_ places: Range<Int>, to part: inout SurveyPart) {
        for place in places {
            guard let connection = connections.at(place) else { continue }
            part.connections.add(connection)
        }
    }

    /// The subscriptions of one view, or one subscription to a pattern, with the same policy.
    private struct Group: Hashable {
        var view: ObjectIdentifier
        var policy: Overflow
    }

    private func addSubscriptions(_ places: Range<Int>, _ survey: Survey, to part: inout SurveyPart, now: Instant) {
        var top = FirstRows<BoundStream>(most: survey.most, last: survey.last)
        var views: [ObjectIdentifier: (name: String, sums: SubscriptionSums)] = [:]
        var behind: [Group: UInt64] = [:]
        for place in places {
            guard let stream = streams.at(place), stream.isSubscription else { continue }
            let row = row(stream)
            var sums = SubscriptionSums()
            add(stream, to: &sums, now: now)
            part.subscriptionSums.add(sums)
            views[row.view, default: (row.name, SubscriptionSums())].sums.add(sums)
            if survey.pairs > 0, sums.slow > 0 {
                let group = Group(view: row.view, policy: row.policy)
                behind[group] = Swift.max(behind[group] ?? 0, sums.behind)
            }
            guard survey.most > 0, sums.slow > 0 || !survey.slow, isWanted(stream, row, survey) else { continue }
            part.found += 1
            top.add(stream, rank(stream, behind: sums.behind, by: survey.order))
        }
        part.subscriptions = top.all().map { figures(of: $0, now: now) }
        for view in views.values where survey.topics.contains(view.name) {
            part.byTopic[view.name, default: SubscriptionSums()].add(view.sums)
        }
        let pairs = behind.map { BehindPair(topic: views[$0.key.view]!.name, policy: $0.key.policy, behind: $0.value) }
        part.pairs = BehindPair.merged(pairs, most: survey.pairs)
    }

    /// A subscription's topic, or its pattern, and its policy. `view` is the same for all subscriptions of a view.
    private func row(_ stream: BoundStream) -> (view: ObjectIdentifier, name: String, policy: Overflow) {
        if stream.kind == .pattern {
            let subscription = stream.asPattern
            return (ObjectIdentifier(subscription), subscription.pattern.description, subscription.options.overflow)
        }
        let subscriber = stream.asSubscriber
        return (ObjectIdentifier(subscriber.view), subscriber.view.name, subscriber.options.overflow)
    }

    private func rank(_ stream: BoundStream, behind: UInt64, by order: Survey.Order) -> Rank {
        stream.kind == .pattern
            ? Rank(stream.asPattern, behind: behind, by: order) : Rank(stream.asSubscriber, behind: behind, by: order)
    }

    private func figures(of stream: BoundStream, now: Instant) -> SubscriptionStatistics {
        let connection = text(stream.connection.id)
        return stream.kind == .pattern
            ? SubscriptionStatistics(stream.asPattern, connection: connection, now: now)
            : SubscriptionStatistics(stream.asSubscriber, connection: connection, now: now)
    }

    private func isWanted(
        _ stream: BoundStream, _ row: (view: ObjectIdentifier, name: String, policy: Overflow), _ survey: Survey
    ) -> Bool {
        survey.find.isEmpty || survey.find.isIn(row.name) || survey.find.isIn(stream.connection.peer)
            || survey.find.isIn(row.policy.name) || stream.principal.user.map(survey.find.isIn) ?? false
    }

    private func add(_ stream: BoundStream, to sums: inout SubscriptionSums, now: Instant) {
        let pattern = stream.kind == .pattern ? stream.asPattern : nil
        let subscriber = stream.kind == .pattern ? nil : stream.asSubscriber
        guard let credit = pattern?.credit ?? subscriber?.credit else { return }
        sums.count = 1
        if credit.isUnbounded { sums.unbounded = 1 } else { sums.outstanding = credit.outstanding }
        sums.waiting = pattern?.sums.waiting ?? subscriber?.known { $0.waiting } ?? 0
        guard sums.waiting > 0 else { return }
        if credit.available == 0 { sums.waitingForCredit = 1 } else { sums.waitingForSocket = 1 }
        (sums.lag, sums.age) = subscriber?.lag(now: now) ?? (sums.waiting, 0)
        sums.behind = pattern?.sums.behind(now: now) ?? subscriber?.behind(now: now) ?? 0
        if sums.behind >= SubscriptionSums.slowness { sums.slow = 1 }
    }
}

extension TopicSums {
    fileprivate mutating func add(_ topic: TopicStatistics) {
        count += 1
        bytes += topic.bytes
        memory += topic.memory
        retained += topic.retained
        switch topic.storage.storage {
        case .memory, .shared: break
        case .durable: durable += 1
        case .relaxed: relaxed += 1
        }
        publishers += topic.publishers
        blockedPublishers += topic.blockedPublishers
        if topic.waitFor == .store { waitingForStore += topic.blockedPublishers }
        parked += topic.parked
        parkedBytes += topic.parkedBytes
    }
}

extension ConnectionSums {
    fileprivate mutating func add(_ connection: Connection) {
        switch connection.spoken {
        case .rsocket: rsocket += 1
        case .http1: http1 += 1
        case .http2: http2 += 1
        case .http: undecided += 1
        }
        output += connection.handedOver
        control += connection.output.controlCount
        if !connection.input.isReading { paused += 1 }
    }
}
