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
    fileprivate var backlog = TurnQueue<Connection>()
    /// Views with members to bring up to the log's end.
    fileprivate var views = TurnQueue<Mirror>()
    /// Connections that are over, with streams left.
    fileprivate var endings = TurnQueue<Connection>()
    /// Topics that are over, with publishers left.
    fileprivate var topics = TurnQueue<Topic>()

    /// Subscriptions whose next message has to be made in their form.
    fileprivate var forms = TurnQueue<Subscriber>()
    /// Those for whose message there was no memory.
    fileprivate var starved = TurnQueue<Subscriber>()
    /// Nobody waits for memory.
    var isFed: Bool { starved.isEmpty }

    /// Some of those who wait for memory go on.
    mutating func feed(most: Int) {
        for _ in 0..<most {
            guard let subscriber = starved.popFirst() else { return }
            _ = forms.append(subscriber)
        }
    }

    /// What all of something is gone over for.
    fileprivate var sweeps: [Sweep] = []

    var isEmpty: Bool { count == 0 && sweeps.isEmpty }
    fileprivate var count: Int { backlog.count + views.count + endings.count + topics.count + forms.count }
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

extension Shard {
    /// Something was left for later: `goOn` is to be called in each turn until there is nothing.
    public var hasWork: Bool { !work.isEmpty }
    /// The turn has taken its time: what is left of its inputs is for the next one.
    public var isTurnOver: Bool { work.spent >= Work.turn }

    /// Bytes to be read from a connection at a time, at most: less where memory is short, as they may have to be kept,
    /// and next to nothing from one that leaves answers unread meanwhile.
    public func readLimit(of id: ConnectionID) -> Int {
        guard pool.isReadingShort || memory.isPendingFull else { return Limits.readQuantum }
        let connection = connections[Handle(index: id.index, generation: id.generation)]
        if let connection, connection.output.blocked || connection.output.unreadAnswers > 0 { return Limits.leastRead }
        return pool.isReadingShort ? Limits.shortRead : Limits.readQuantum
    }

    /// A turn begins.
    public func beginTurn() { work.begin() }

    /// What a connection sent is not dealt with yet: nothing more is to be read from it.
    public func isBehind(_ id: ConnectionID) -> Bool {
        connections[Handle(index: id.index, generation: id.generation)]?.isBehind ?? false
    }

    /// Goes on with what was left for later, as far as half a turn allows: each has one quantum. One of each kind at a
    /// time, so that no kind waits for another.
    public func goOn(now: Instant) {
        moment = now
        if !work.sweeps.isEmpty { goOnSweeping(now: now) }
        let end = work.spent + Work.turn / 2
        var left = work.count
        while left > 0, work.spent < end {
            let before = left
            if let view = work.views.popFirst() {
                left -= 1
                view.isInLine = false
                view.goOn(most: slice, now: now)
            }
            if let connection = work.endings.popFirst() {
                left -= 1
                connection.isEnding = false
                dropStreams(of: connection, now: now)
            }
            if let topic = work.topics.popFirst() {
                left -= 1
                topic.refuseSomePublishers()
                if topic.refused == nil { forgetIfUnused(topic) }
            }
            if let connection = work.backlog.popFirst() {
                left -= 1
                connection.isBehind = false
                take(connection, now: now)
                charge(connection)
                settle(now)
            }
            if let subscriber = work.forms.popFirst() {
                left -= 1
                subscriber.awaitsForm = false
                if subscriber.isMember { deliver(subscriber, now: now) }
            }
            if left == before { break }
        }
        settle(now)
        // However much that was, what comes now has its turn, too.
        work.spent = Swift.min(work.spent, Work.turn / 2)
    }

    /// Has all connections or topics gone over, from the first on, some of them at once.
    func sweep(_ reason: Sweep.Reason, now: Instant) {
        var sweep = Sweep(reason: reason)
        if reason == .permissions {
            sweep.review = Review(access)
            sweep.review?.takeOver(work.sweeps.first { $0.reason == reason }?.review)
        }
        work.sweeps.removeAll { $0.reason == reason }
        work.sweeps.insert(sweep, at: 0)
        goOnSweeping(now: now)
    }

    func isSweeping(_ reason: Sweep.Reason) -> Bool { work.sweeps.contains { $0.reason == reason } }

    /// The sweep whose turn it is goes on, and gets in line.
    private func goOnSweeping(now: Instant) {
        guard var sweep = work.sweeps.first else { return }
        work.sweeps.removeFirst()
        var left = Work.sweep
        let end = work.spent + Work.turn / 2
        while left > 0, work.spent < end, sweep.place < places(of: sweep) {
            left -= 1
            switch sweep.reason {
            case .settings: topics.held(at: sweep.place).map { adopt($0, now: now) }
            case .drainingTopics: topics.held(at: sweep.place)?.refusePublishers(Shard.drainingRefusal)
            case .drainingConnections: connections.at(sweep.place).map { drain($0, now: now) }
            case .unacknowledged: connections.at(sweep.place).map { giveUpUnacknowledged(of: $0, now: now) }
            case .countingUnread: connections.at(sweep.place).map(countUnread)
            case .freeingUnread: connections.at(sweep.place).map { freeUnread(of: $0, now: now) }
            case .holdingBack: connections.at(sweep.place).map { limitHoldingBack($0, now: now) }
            case .permissions:
                guard let connection = connections.at(sweep.place) else { break }
                if sweep.streams == nil { reload(connection, &sweep.review) }
                sweep.streams = review(
                    connection, sweep.streams ?? connection.streams.count, &sweep.review, most: &left, now: now)
                if sweep.streams != nil { continue }
            }
            sweep.place += 1
        }
        work.spent += (Work.sweep - left) * Work.ending
        if sweep.place < places(of: sweep) {
            work.sweeps.append(sweep)
        } else if var review = sweep.review {
            review.takeOver(effects.reviewed)
            effects.reviewed = review
        }
    }

    private func places(of sweep: Sweep) -> Int {
        switch sweep.reason {
        case .settings, .drainingTopics: topics.heldBound
        case .drainingConnections, .permissions, .countingUnread: connections.bound
        case .holdingBack: memory.isPendingHigh ? connections.bound : 0
        case .freeingUnread: isUnreadTooMuch ? connections.bound : 0
        // Enough has been given up.
        case .unacknowledged: memory.used > memory.limit ? connections.bound : 0
        }
    }

    /// A connection has used up its quantum.
    func getInLine(_ connection: Connection) {
        guard !connection.isBehind else { return }
        connection.isBehind = true
        _ = work.backlog.append(connection)
    }

    /// A view has members left to bring up to the log's end.
    func advanceLater(_ view: Mirror) {
        guard !view.isInLine else { return }
        view.isInLine = true
        _ = work.views.append(view)
    }

    /// Making a subscription's next message in its form would take this turn too long.
    func makeLater(for subscriber: Subscriber) {
        guard !subscriber.awaitsForm else { return }
        subscriber.awaitsForm = true
        _ = work.forms.append(subscriber)
    }

    /// There is no memory for a subscription's next message in its form.
    func makeWhenThereIsMemory(for subscriber: Subscriber) {
        reached(.memory)
        guard !subscriber.awaitsForm else { return }
        subscriber.awaitsForm = true
        _ = work.starved.append(subscriber)
    }

    /// A topic has publishers left to refuse.
    func refuseLater(_ topic: Topic) { work.topics.append(topic) }

    /// Ends the streams of a connection that is over; where there are many, some of them now and the others later.
    func dropStreams(of connection: Connection, now: Instant) {
        var count = 0
        while let stream = connection.streams.last {
            if count == Work.endings { return endLater(connection) }
            count += 1
            if stream.kind == .subscriber {
                // `forget` counts what it costs.
                if let end = connection.end {
                    unsafeDowncast(stream, to: Subscriber.self).end = "its connection ended: \(end)"
                }
            } else {
                work.spent += Work.ending
            }
            if stream.kind == .publisher {
                ended(unsafeDowncast(stream, to: Publisher.self), .lost, now: now)
            }
            // The owner may have answered at once and so have dropped it.
            if streams[stream.handle] === stream { drop(stream) }
        }
        if connection.isClosed { giveBack(connection) }
    }

    /// What a closed connection held. Once all its streams have ended nothing is written to it any more.
    func giveBack(_ connection: Connection) {
        connection.output.removeAll()
        guard connection.streams.isEmpty else { return }
        // They refer to the connection in turn.
        connection.removeHungry()
        connection.waitingListings.removeAll()
    }

    /// A connection has streams left to end.
    func endLater(_ connection: Connection) {
        guard !connection.isEnding else { return }
        connection.isEnding = true
        _ = work.endings.append(connection)
    }
}
