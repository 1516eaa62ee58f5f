// Gathering: turns a request into queries to the shards, and their results into one outcome. It uses neither threads
// nor clocks: its owner sends the queries, and calls `giveUp` when the time limit expires.
//
//     survey:  topics of every shard ──all──▶ connections ──all──▶ subscriptions ──all──▶ complete
//              (for metrics, preceded by the busiest topics)
//     list:    one shard after another, until the page is full ──▶ complete
//     ping, control:  query ──all──▶ complete

import Core
import ForebayWire
import HTTP2

/// A query to a shard.
struct Question: Sendable {
    var shard: Int
    var query: ShardQuery
}

struct Gathering {
    /// The result.
    enum Outcome {
        case figures(BrokerStatistics)
        case page([String], next: ListCursor?)
        case done(String)
        case refused(Problem)
    }

    private enum Work {
        case ping
        case survey(topics: Selection, subscriptions: Selection)
        case list(BrokerList, limit: Int)
        case control
    }

    private let work: Work
    private let shards: Int
    private var phase = Survey.Table.topics
    /// Whether the result is for metrics: the topics are then the busiest ones and those in trouble.
    private var isForMetrics = false
    /// The first rows received so far, in the requested order.
    private var busiest: FirstRows<TopicStatistics>
    private var topics: FirstRows<TopicStatistics>
    private var subscriptions: FirstRows<SubscriptionStatistics>
    /// Shards that have not answered yet.
    private var awaited: Set<Int> = []
    private var figures: BrokerStatistics
    private var rows: [String] = []
    private var cursor = ListCursor()
    private var result: Outcome?

    /// - Parameter known: the last known statistics of the shards.
    init(_ call: AdminCall, known: [ShardStatistics]) {
        shards = known.count
        figures = BrokerStatistics(shards: known)
        for index in figures.shards.indices { figures.shards[index].isResponding = true }
        switch call {
        case .alive, .ready, .file: work = .ping
        case .metrics(let topics, let subscriptions):
            work = .survey(
                topics: Selection(limit: topics, order: .trouble),
                subscriptions: Selection(limit: subscriptions, order: .age))
            isForMetrics = true
            if topics > 0 { phase = .busiest }
        case .info, .stats: work = .survey(topics: Selection(), subscriptions: Selection())
        case .overview(let topics, let subscriptions):
            work = .survey(topics: topics, subscriptions: subscriptions)
        case .list(let list, let cursor, let limit):
            work = .list(list, limit: limit)
            self.cursor = cursor
        case .control: work = .control
        }
        var selections = (topics: Selection(), subscriptions: Selection())
        if case .survey(let topics, let subscriptions) = work { selections = (topics, subscriptions) }
        busiest = FirstRows(most: selections.topics.limit)
        topics = FirstRows(most: selections.topics.reach)
        subscriptions = FirstRows(most: selections.subscriptions.reach)
    }

    /// The outcome, once all shards have answered; nil until then.
    var outcome: Outcome? { awaited.isEmpty ? result ?? .figures(figures) : nil }

    /// Returns the first queries.
    mutating func start(_ call: AdminCall) -> [Question] {
        switch work {
        case .ping: return askAll { _ in .ping }
        case .survey: return survey()
        case .list:
            guard cursor.shard < shards else {
                result = .page([], next: nil)
                return []
            }
            return askForPage()
        case .control:
            guard case .control(let control) = call else { return [] }
            let home = control.home(among: shards)
            awaited = [home]
            return [Question(shard: home, query: .control(control))]
        }
    }

    /// Handles a shard's answer.
    /// - Returns: the next queries.
    mutating func receive(_ answer: ShardAnswer, from shard: Int, loop: LoopStatistics) -> [Question] {
        guard awaited.contains(shard) else { return [] }
        figures.shards[shard].loop = loop
        switch answer {
        case .present: awaited.remove(shard)
        case .survey(let part): return take(part, from: shard)
        case .page(let page, let next): return take(page, next)
        case .done(let json):
            awaited.remove(shard)
            result = .done(json)
        case .refused(let refusal):
            awaited.remove(shard)
            result = .refused(refusal.problem)
        }
        return []
    }

    /// Stops waiting for shards that have not answered.
    mutating func giveUp() -> Outcome {
        for shard in awaited { figures.shards[shard].isResponding = false }
        let missing = awaited.sorted().map(String.init).joined(separator: ", ")
        awaited = []
        switch work {
        case .ping: return .figures(figures)
        case .survey:
            if case .busiest = phase { phase = .topics }
            endPhase()
            return .figures(figures)
        case .list: return .refused(Problem(.busy, "Shard \(missing) is not responding; try again later."))
        case .control:
            let text =
                "The call did not complete in time and may still take effect: shard \(missing) has not responded, or "
                + "the store has not committed it. Check the result before you try again."
            return .refused(Problem(.busy, text))
        }
    }

    // Surveys

    private mutating func survey() -> [Question] {
        let question = survey(after: 0)
        return askAll { _ in question }
    }

    private func survey(after place: Int) -> ShardQuery {
        guard case .survey(let ofTopics, let ofSubscriptions) = work else { return .ping }
        var survey: Survey
        switch phase {
        case .busiest:
            survey = Survey(.busiest, after: place, most: ofTopics.limit, order: .busy)
            survey.last = busiest.last
        case .topics:
            survey = Survey(.topics, after: place, most: ofTopics.reach, order: ofTopics.order)
            survey.find = Needle(ofTopics.find)
            survey.system = isForMetrics || ofTopics.find.hasPrefix("$")
            survey.last = topics.last
        case .connections: survey = Survey(.connections, after: place, most: 0, order: .age)
        case .subscriptions:
            survey = Survey(
                .subscriptions, after: place, most: ofSubscriptions.reach, order: ofSubscriptions.order,
                topics: Set(figures.topics.map(\.name)))
            survey.find = Needle(ofSubscriptions.find)
            survey.slow = ofSubscriptions.slow
            survey.pairs = isForMetrics ? ofTopics.limit : 0
            survey.last = subscriptions.last
        }
        return .survey(survey)
    }

    private mutating func take(_ part: SurveyPart, from shard: Int) -> [Question] {
        guard case .survey(let ofTopics, let ofSubscriptions) = work else { return [] }
        figures.shards[shard].counters = part.counters
        figures.topicSums.add(part.topicSums)
        figures.connections.add(part.connections)
        figures.subscriptionSums.add(part.subscriptionSums)
        for (name, sums) in part.byTopic { figures.byTopic[name, default: SubscriptionSums()].add(sums) }
        if !part.pairs.isEmpty {
            figures.behind = BehindPair.merged(figures.behind + part.pairs, most: ofTopics.limit)
        }
        switch phase {
        case .busiest: for topic in part.topics { busiest.add(topic, topic.rank(by: .busy)) }
        case .topics:
            figures.topicsFound += part.found
            for topic in part.topics { topics.add(topic, topic.rank(by: ofTopics.order)) }
        case .connections: break
        case .subscriptions:
            figures.subscriptionsFound += part.found
            for row in part.subscriptions { subscriptions.add(row, row.rank(by: ofSubscriptions.order)) }
        }
        if let next = part.next { return [Question(shard: shard, query: survey(after: next))] }
        awaited.remove(shard)
        guard awaited.isEmpty else { return [] }
        endPhase()
        switch phase {
        case .busiest: phase = .topics
        case .topics: phase = .connections
        case .connections: phase = .subscriptions
        case .subscriptions: return []
        }
        return self.survey()
    }

    /// Ends a phase, and keeps only the requested rows.
    private mutating func endPhase() {
        guard case .survey(let ofTopics, let ofSubscriptions) = work else { return }
        switch phase {
        case .busiest, .connections: break
        case .topics:
            let busiest = busiest.all()
            let known = Set(busiest.map(\.epoch))
            let others = topics.all().dropFirst(ofTopics.skip)
            figures.topics = busiest + others.filter { !known.contains($0.epoch) }
        case .subscriptions: figures.subscriptions = Array(subscriptions.all().dropFirst(ofSubscriptions.skip))
        }
    }

    private mutating func askAll(_ query: (Int) -> ShardQuery) -> [Question] {
        awaited = Set(0..<shards)
        return (0..<shards).map { Question(shard: $0, query: query($0)) }
    }

    // Lists

    private mutating func askForPage() -> [Question] {
        guard case .list(let list, let limit) = work else { return [] }
        awaited = [cursor.shard]
        let page = ShardQuery.page(list, after: cursor.place, most: limit - rows.count)
        return [Question(shard: cursor.shard, query: page)]
    }

    private mutating func take(_ page: [String], _ next: Int?) -> [Question] {
        guard case .list(_, let limit) = work else { return [] }
        awaited = []
        rows += page
        cursor = next.map { ListCursor(shard: cursor.shard, place: $0) } ?? ListCursor(shard: cursor.shard + 1)
        if rows.count < limit, cursor.shard < shards { return askForPage() }
        result = .page(rows, next: cursor.shard < shards ? cursor : nil)
        return []
    }
}
