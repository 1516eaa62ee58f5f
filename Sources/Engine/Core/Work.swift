// Work: how much of its thread's time one turn of a shard takes, and what goes on in the next one. Nobody's input is
// dealt with to its end while others wait: a connection is given a quantum, counted in units of about a microsecond,
// and gets in line with the rest of what it sent. The same holds for a view that has many members to bring a message
// to, and for a connection that ends with many streams.
//
//     read ─▶ quantum ─▶ all dealt with
//                └─ used up ─▶ backlog ─▶ quantum …          each has one, then the next one's turn comes

struct Work {
    /// Units that one connection's input may take before others have their turn.
    static let quantum = 96
    /// Units after which a turn goes on to what is to be written, and begins again.
    static let turn = 500
    /// Streams that end before others have their turn, where a connection or a topic has many.
    static let endings = 64

    /// Requests and batches of messages on their way to other shards beyond which each connection has one at a time.
    static let mailUnderWay = 1024

    /// Connections, topics or streams of which a sweep looks at one after the other before others have their turn.
    static let sweep = 64

    // What things cost, in units.
    static let event = 1
    /// A message from another shard.
    static let mail = 4
    /// A connection of HTTP that is new, and a request over HTTP/1.1.
    static let request = 25
    static let subscribing = 8
    static let ending = 4
    /// A connection whose socket is closed.
    static let closing = 16
    /// Bytes of messages in other forms that are made for one unit.
    static let bytesMadePerUnit = 1024
    /// Bytes of a message from which on it is made in another form in a turn that has time for that.
    static let worthATurn = EntryRun.large
    /// Members that are brought up to the log's end for one unit.
    static let membersPerUnit = 8

    /// Places of a table that an operator's question goes over for one unit.
    static let placesPerUnit = 4

    /// Units taken since the turn began.
    var spent = 0
    /// Bytes of messages in other forms that were made since then.
    private var made = 0
    /// Another large message in another form would make the turn too long.
    var hasMadeMuch: Bool { made >= Work.worthATurn }

    mutating func begin() {
        spent = 0
        made = 0
    }

    /// So many bytes of messages in other forms were made.
    mutating func note(made bytes: Int) {
        made += bytes
        spent += bytes / Work.bytesMadePerUnit
    }

    /// Connections with input left.
    private var backlog = TurnQueue<Connection>()
    /// Views with members to bring up to the log's end.
    private var views = TurnQueue<TopicView>()
    /// Connections that are over, with streams left.
    private var endings = TurnQueue<Connection>()
    /// Topics that are over, with publishers left.
    private var topics = TurnQueue<Topic>()

    /// Subscriptions whose next message has to be made in their form.
    private var forms = TurnQueue<Subscriber>()
    /// Those for whose message there was no memory.
    private var starved = TurnQueue<Subscriber>()
    /// Nobody waits for memory.
    var isFed: Bool { starved.isEmpty }

    /// Some of those who wait for memory go on.
    mutating func feed(most: Int) {
        for _ in 0..<most {
            guard let subscriber = starved.popFirst() else { return }
            forms.append(subscriber)
        }
    }

    /// What all of something is gone over for.
    var sweeps: [Sweep] = []

    /// The turn has taken its time: what is left of its inputs is for the next one.
    var isTurnOver: Bool { spent >= Work.turn }

    var isEmpty: Bool { count == 0 && sweeps.isEmpty }
    var count: Int { backlog.count + views.count + endings.count + topics.count + forms.count }

    // Getting in line, and having one's turn

    /// A connection has used up its quantum.
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

    /// A view has members left to bring up to the log's end.
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

    /// Making a subscription's next message in its form would take this turn too long.
    mutating func makeLater(for subscriber: Subscriber) {
        guard !subscriber.awaitsForm else { return }
        subscriber.awaitsForm = true
        forms.append(subscriber)
    }

    /// There is no memory for a subscription's next message in its form.
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

    /// A topic has publishers left to refuse.
    mutating func refuseLater(_ topic: Topic) { topics.append(topic) }

    mutating func nextTopic() -> Topic? { topics.popFirst() }

    /// A connection has streams left to end.
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

/// All connections, or all topics, are to be gone over, each once.
struct Sweep {
    enum Reason {
        case settings, permissions, drainingTopics, drainingConnections, unacknowledged
        case countingUnread, freeingUnread, holdingBack
    }

    let reason: Reason
    /// The place that comes next.
    var place = 0
    /// Streams of the connection there that are left; nil before it has had its turn.
    var streams: Int?
    /// What has come of it so far, where permissions are the reason.
    var review: Review?
}
