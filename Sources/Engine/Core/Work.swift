// Work: limits the thread time of one turn of a shard, and queues what is deferred to the next one. No connection's
// input is processed to the end while others wait: each connection has a quantum, counted in units of about a
// microsecond. Once it is used up, the connection is queued with the rest of its input. The same applies to views that
// have to deliver a message to many members, and to connections that end with many streams.
//
//     read ─▶ quantum ─▶ all processed
//                └─ used up ─▶ backlog ─▶ quantum …          one each, then the next connection's turn

struct Work {
    /// Units that one connection's input may take before others have their turn.
    static let quantum = 96
    /// Units after which a turn proceeds to writing.
    static let turn = 500
    /// Streams of a connection or topic that end before others have their turn.
    static let endings = 64

    /// The number of requests and batches in flight to other shards above which each connection may have only one at a
    /// time.
    static let shardMessagesInFlight = 128

    /// Connections, topics or streams that a sweep visits before others have their turn.
    static let sweep = 64

    // Costs, in units
    static let event = 1
    /// A message from another shard.
    static let messages = 4
    /// A new HTTP connection, or a request over HTTP/1.1.
    static let request = 25
    static let subscribing = 8
    /// A new topic, with its places in the tables.
    static let topic = 16
    static let ending = 4
    /// Bytes of a pattern that is added or removed per unit.
    static let patternBytesPerUnit = 16
    /// Nodes of a trie of patterns that are visited per unit.
    static let patternNodesPerUnit = 8
    /// Bytes of a client's positions that are parsed per unit.
    static let positionBytesPerUnit = 64
    /// A cursor of a subscription to a pattern that is made or removed, and one that takes its turn.
    static let cursor = 4
    static let cursorTurn = 2
    /// A connection whose socket is closed.
    static let closing = 16
    /// Bytes of messages in other forms that are encoded per unit.
    static let bytesMadePerUnit = 1024
    /// Messages of at least this many bytes are encoded in another form only in a turn that has time for it.
    static let worthATurn = EntryRun.large
    /// Members that advance to the log's end per unit.
    static let membersPerUnit = 8

    /// Slots of a table that an operator's query visits per unit.
    static let placesPerUnit = 4

    /// Units spent since the turn began.
    var spent = 0
    /// Those of them that were spent on messages for which there was space in an output.
    var spentFeeding = 0
    /// Bytes of messages encoded in other forms in this turn.
    private var made = 0
    /// Whether encoding another large message would make the turn too long.
    var hasMadeMuch: Bool { made >= Work.worthATurn }

    mutating func begin() {
        spent = 0
        spentFeeding = 0
        made = 0
    }

    /// Counts bytes of messages that were encoded in a form other than the log's.
    mutating func note(made bytes: Int) {
        made += bytes
        spent += bytes / Work.bytesMadePerUnit
    }

    /// Connections with unprocessed input.
    private var backlog = TurnQueue<Connection>()
    /// Views with members that have to advance to the log's end.
    private var views = TurnQueue<TopicView>()
    /// Connections that have ended, with streams left.
    private var endings = TurnQueue<Connection>()
    /// Topics that have ended, with publishers left.
    private var topics = TurnQueue<Topic>()

    private var patterns = TurnQueue<PatternWork>()

    /// Subscriptions whose next message has to be encoded.
    private var forms = TurnQueue<Subscriber>()
    /// Subscriptions whose next message is waiting for memory.
    private var starved = TurnQueue<Subscriber>()
    /// Whether no subscription waits for memory.
    var isFed: Bool { starved.isEmpty }

    /// Lets up to `most` subscriptions that wait for memory continue.
    mutating func feed(most: Int) {
        for _ in 0..<most {
            guard let subscriber = starved.popFirst() else { return }
            forms.append(subscriber)
        }
    }

    /// Sweeps in progress.
    var sweeps: [Sweep] = []

    /// Whether the turn has used up its time. Its remaining inputs are left for the next one.
    var isTurnOver: Bool { spent >= Work.turn }

    var isEmpty: Bool { count == 0 && sweeps.isEmpty }
    var count: Int { backlog.count + views.count + endings.count + topics.count + forms.count + patterns.count }

    // Deferring work, and continuing it

    /// Queues a connection that has used up its quantum.
    mutating func getInLine(_ connection: Connection) {
        guard !connection.input.isBehind else { return }
        connection.input.isBehind = true
        backlog.append(connection)
    }

    mutating func nextBehind() -> Connection? {
        let connection = backlog.popFirst()
        assert(connection?.input.isBehind != false)
        connection?.input.isBehind = false
        return connection
    }

    /// Queues a view whose members have not all advanced to the log's end.
    mutating func advanceLater(_ view: TopicView) {
        guard !view.isInLine else { return }
        view.isInLine = true
        views.append(view)
    }

    mutating func nextView() -> TopicView? {
        let view = views.popFirst()
        assert(view?.isInLine != false)
        view?.isInLine = false
        return view
    }

    /// Defers encoding a subscription's next message, because it would make this turn too long.
    mutating func makeLater(for subscriber: Subscriber) {
        guard !subscriber.awaitsForm else { return }
        subscriber.awaitsForm = true
        forms.append(subscriber)
    }

    /// Defers encoding a subscription's next message until there is memory for it.
    mutating func makeWhenThereIsMemory(for subscriber: Subscriber) {
        guard !subscriber.awaitsForm else { return }
        subscriber.awaitsForm = true
        starved.append(subscriber)
    }

    mutating func nextForm() -> Subscriber? {
        let subscriber = forms.popFirst()
        assert(subscriber?.awaitsForm != false)
        subscriber?.awaitsForm = false
        return subscriber
    }

    mutating func doLater(_ deferred: PatternWork) { patterns.append(deferred) }

    mutating func nextPatternWork() -> PatternWork? { patterns.popFirst() }

    /// Queues a topic that has publishers left to refuse.
    mutating func refuseLater(_ topic: Topic) { topics.append(topic) }

    mutating func nextTopic() -> Topic? { topics.popFirst() }

    /// Queues a connection that has streams left to end.
    mutating func endLater(_ connection: Connection) {
        guard !connection.lists.isEnding else { return }
        connection.lists.isEnding = true
        endings.append(connection)
    }

    mutating func nextEnding() -> Connection? {
        let connection = endings.popFirst()
        assert(connection?.lists.isEnding != false)
        connection?.lists.isEnding = false
        return connection
    }
}

/// A pass over all connections or all topics that visits each once.
struct Sweep {
    enum Reason {
        case settings, permissions, drainingTopics, drainingConnections, unacknowledged
        case countingUnread, freeingUnread, holdingBack
    }

    let reason: Reason
    /// The next slot.
    var place = 0
    /// Streams of the connection in that slot still to be visited; nil before its first visit.
    var streams: Int?
    /// The result so far of a review of permissions.
    var review: Review?
}
