// Inquiries: what the admin listener asks of a shard, from a thread of its own. Each is answered within one turn, and
// none takes longer than going over a few thousand places of a table: who wants to see all goes on where the answer
// stopped.

import HTTP2
import Replay

/// A question to one shard.
public enum Inquiry: Sendable {
    /// Are you there?
    case ping
    case survey(Survey)
    /// JSON of the items of a list from a place on, at most so many.
    case page(SystemList, after: Int, most: Int)
    case control(ControlCall)
}

/// A shard's answer.
public enum InquiryAnswer: Sendable {
    case present
    case survey(SurveyPart)
    /// And where the next page begins; nil at the list's end.
    case page([String], next: Int?)
    case done(String)
    case refused(Problem)
}

/// Going over one of a shard's tables.
public struct Survey: Sendable {
    public enum Table: Sendable { case topics, connections, subscriptions }
    public enum Order: Sendable {
        /// The oldest, which stay the same from one survey to the next.
        case age
        /// Topics with the most messages, subscriptions that have been behind for longest.
        case rank
    }

    public var table: Table
    /// The place to begin at: 0, or where the part before ended.
    public var after: Int
    /// Items of which all figures are told, at most.
    public var most: Int
    public var order: Order
    /// Topics whose subscriptions are summed up by themselves.
    public var topics: Set<String>

    public init(_ table: Table, after: Int = 0, most: Int, order: Order, topics: Set<String> = []) {
        self.table = table
        self.after = after
        self.most = most
        self.order = order
        self.topics = topics
    }

    /// Places that one part goes over.
    public static let places = 2048
}

/// What was found on the way.
public struct SurveyPart: Sendable {
    /// Where to go on; nil at the end.
    public var next: Int?
    /// Of the whole shard.
    public var counters: ShardCounters
    public var topicSums = TopicSums()
    public var topics: [TopicFigures] = []
    public var connections = ConnectionSums()
    public var subscriptionSums = SubscriptionSums()
    public var subscriptions: [SubscriptionFigures] = []
    public var byTopic: [String: SubscriptionSums] = [:]

    public init(counters: ShardCounters) { self.counters = counters }
}

extension TopicFigures {
    /// Which of two topics comes first.
    public static func isBefore(_ a: TopicFigures, _ b: TopicFigures, by order: Survey.Order) -> Bool {
        switch order {
        case .age: (a.age, b.name) > (b.age, a.name)
        case .rank: (a.published, b.name) > (b.published, a.name)
        }
    }
}

extension SubscriptionFigures {
    /// Which of two subscriptions comes first: under `rank` those that have been behind for longest, then those that
    /// lost most.
    public static func isBefore(_ a: SubscriptionFigures, _ b: SubscriptionFigures, by order: Survey.Order) -> Bool {
        switch order {
        case .age: a.id < b.id
        case .rank: (a.behind, a.dropped, b.id) > (b.behind, b.dropped, a.id)
        }
    }
}

extension Shard {
    public func answer(_ inquiry: Inquiry, now: Instant) -> InquiryAnswer {
        moment = now
        switch inquiry {
        case .ping: return .present
        case .survey(let survey): return .survey(answer(survey, now: now))
        case .page(let list, let after, let most):
            let (rows, next) = rows(of: list, after: Swift.max(0, after), most: most, for: .operator, now: now)
            return .page(rows.map(\.json), next: next)
        case .control(let call):
            defer { settle(now) }
            switch perform(call, now: now) {
            case .success(let description): return .done(description?.json ?? "{}")
            case .failure(let refusal): return .refused(refusal.problem)
            }
        }
    }

    private func answer(_ survey: Survey, now: Instant) -> SurveyPart {
        var part = SurveyPart(counters: currentCounters())
        let bound: Int
        switch survey.table {
        case .topics: bound = topicPlaces.bound
        case .connections: bound = connections.bound
        case .subscriptions: bound = streams.bound
        }
        let start = Swift.min(Swift.max(0, survey.after), bound)
        let end = Swift.min(start + Survey.places, bound)
        switch survey.table {
        case .topics: addTopics(start..<end, survey, to: &part, now: now)
        case .connections: addConnections(start..<end, to: &part)
        case .subscriptions: addSubscriptions(start..<end, survey, to: &part, now: now)
        }
        part.next = end < bound ? end : nil
        return part
    }

    private func addTopics(_ places: Range<Int>, _ survey: Survey, to part: inout SurveyPart, now: Instant) {
        for place in places {
            guard let topic = topicPlaces.at(place) else { continue }
            let figures = figures(of: topic, now: now)
            part.topicSums.add(figures)
            guard survey.most > 0 else { continue }
            part.topics.append(figures)
            if part.topics.count >= 2 * survey.most { keep() }
        }
        keep()
        func keep() { part.topics.keepTop(survey.most) { TopicFigures.isBefore($0, $1, by: survey.order) } }
    }

    private func addConnections(_ places: Range<Int>, to part: inout SurveyPart) {
        for place in places {
            guard let connection = connections.at(place) else { continue }
            part.connections.add(connection)
        }
    }

    private func addSubscriptions(_ places: Range<Int>, _ survey: Survey, to part: inout SurveyPart, now: Instant) {
        var top: [(behind: UInt64, dropped: UInt64, subscriber: Subscriber)] = []
        func keep() {
            top.keepTop(survey.most) { a, b in
                survey.order == .age
                    ? a.subscriber.id < b.subscriber.id
                    : (a.behind, a.dropped, b.subscriber.id) > (b.behind, b.dropped, a.subscriber.id)
            }
        }
        var mirrors: [ObjectIdentifier: SubscriptionSums] = [:]
        var names: [ObjectIdentifier: String] = [:]
        for place in places {
            guard let stream = streams.at(place), stream.kind == .subscriber else { continue }
            let subscriber = unsafeDowncast(stream, to: Subscriber.self)
            var sums = SubscriptionSums()
            add(subscriber, to: &sums, now: now)
            part.subscriptionSums.add(sums)
            let mirror = ObjectIdentifier(subscriber.mirror)
            if mirrors[mirror] == nil { names[mirror] = subscriber.mirror.name }
            mirrors[mirror, default: SubscriptionSums()].add(sums)
            guard survey.most > 0 else { continue }
            top.append((sums.behind, subscriber.hasJoined ? subscriber.cursor.dropped : 0, subscriber))
            if top.count >= 2 * survey.most { keep() }
        }
        keep()
        part.subscriptions = top.map { figures(of: $0.subscriber, now: now) }
        for (mirror, sums) in mirrors {
            guard let name = names[mirror], survey.topics.contains(name) else { continue }
            part.byTopic[name, default: SubscriptionSums()].add(sums)
        }
    }

    private func add(_ subscriber: Subscriber, to sums: inout SubscriptionSums, now: Instant) {
        sums.count = 1
        let credit = subscriber.hasJoined ? subscriber.cursor.credit : subscriber.early
        if credit.isUnbounded { sums.unbounded = 1 } else { sums.outstanding = credit.outstanding }
        guard subscriber.hasJoined, subscriber.cursor.waiting > 0 else { return }
        sums.waiting = subscriber.cursor.waiting
        if credit.available == 0 { sums.waitingForCredit = 1 } else { sums.waitingForSocket = 1 }
        (sums.lag, sums.age) = lag(of: subscriber, now: now)
        sums.behind = behind(subscriber, now: now)
    }
}

extension TopicSums {
    fileprivate mutating func add(_ topic: TopicFigures) {
        count += 1
        bytes += topic.bytes
        memory += topic.memory
        retained += topic.retained
        publishers += topic.publishers
        blockedPublishers += topic.blockedPublishers
        parked += topic.parked
        parkedBytes += topic.parkedBytes
    }
}

extension ConnectionSums {
    fileprivate mutating func add(_ connection: Connection) {
        switch connection.http {
        case nil: rsocket += 1
        case let http? where http.http1 != nil: http1 += 1
        case let http? where http.session != nil: http2 += 1
        default: undecided += 1
        }
        output += connection.handedOver
        control += connection.output.controlCount
        if !connection.isReading { paused += 1 }
    }
}

extension Array {
    /// Keeps the first `most` in order, and throws away the others.
    public mutating func keepTop(_ most: Int, by isBefore: (Element, Element) -> Bool) {
        sort(by: isBefore)
        if count > most { removeSubrange(most...) }
    }
}
