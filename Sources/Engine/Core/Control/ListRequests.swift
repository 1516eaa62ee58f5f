// ListRequests: REQUEST_STREAM on `$SYS.topics`, `$SYS.subscriptions` and `$SYS.connections`, and the lists of gRPC's
// Admin service: one row per item, then the end. RSocket peers request rows by credit; gRPC peers receive rows as fast
// as they read. Rows are fetched as they are sent, in pages, from one shard after the other, so that a list of any
// length needs the memory of one page. Each shard has only one page in flight at a time, for each of its lists in turn:
// opening and abandoning lists is cheap for a peer and must not cause work that others wait for.

import Bytes
import ForebayWire
import Replay

/// A request for a page, sent to a shard.
struct ListPage: Sendable {
    var list: BrokerList
    var after: Int
    var principal: Principal
}

final class ListStream: BoundStream {
    /// Rows fetched at a time.
    static let page = 64
    /// Slots of a shard's table examined per page: the reader may be allowed to see only few of them.
    static let places = 4096
    /// Bytes of a list's rows waiting for its HTTP stream. Beyond that, further rows stay in the page.
    static let body = 16 << 10
    /// The credit of a peer whose protocol has none.
    static let unbounded: UInt32 = 0x7FFF_FFFF

    let list: BrokerList
    var credit: Credit
    var rows: [Description] = []
    /// The shard to fetch rows from, and the slot to continue at. The list has ended after the last shard.
    var shard = 0
    var after = 0
    var isFetching = false
    /// Whether the list was canceled while its page was queued or in flight. The list counts against the connection's
    /// limit until the page arrives.
    var isOver = false
    /// Whether the list is in its connection's `waiters`.
    var isWaiting = false

    init(list: BrokerList, credit: Credit, connection: Connection, stream: UInt32, handle: Handle) {
        self.list = list
        self.credit = credit
        super.init(kind: .listStream, connection: connection, stream: stream, handle: handle)
    }
}

/// Lists whose next page is queued, and the one whose page is in flight.
struct ListPages {
    private var due = TurnQueue<ListStream>()
    fileprivate(set) var underWay: ListStream?

    var dueCount: Int { due.count }

    mutating func append(_ listStream: ListStream) { due.append(listStream) }

    /// The list whose page to request now; nil while another page is in flight.
    fileprivate mutating func next() -> ListStream? { underWay == nil ? due.popFirst() : nil }

    fileprivate mutating func takeUnderWay() -> ListStream? {
        defer { underWay = nil }
        return underWay
    }
}

final class ListRequests: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let topics: TopicTable
    let authorization: Authorization
    let responses: Responses
    let ends: StreamEnds
    let descriptions: Descriptions

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ topics: TopicTable,
        _ authorization: Authorization, _ responses: Responses, _ ends: StreamEnds, _ descriptions: Descriptions
    ) {
        self.streams = streams
        self.connections = connections
        self.topics = topics
        self.authorization = authorization
        self.responses = responses
        self.ends = ends
        self.descriptions = descriptions
        super.init(context)
    }

    private(set) var pages = ListPages()

    func openList(
        _ connection: Connection, stream: UInt32, initialN: UInt32, _ list: BrokerList, now: Instant
    ) throws(Refusal) {
        guard connection.streams.listCount < limits.listsPerConnection else {
            reached(.listsPerConnection)
            throw .limit(
                "The connection has \(limits.listsPerConnection) lists open, the maximum; "
                    + "read one to its end.")
        }
        connection.streams.listCount += 1
        var credit = Credit(mode: .outstanding)
        _ = credit.add(initialN)
        let bound = streams.insert {
            ListStream(list: list, credit: credit, connection: connection, stream: stream, handle: $0)
        }
        connection.attach(bound)
        proceed(bound.asListStream, now: now)
    }

    func request(_ n: UInt32, of listStream: ListStream, now: Instant) {
        guard listStream.credit.add(n) else {
            ends.fail(listStream, .requestOfZero)
            return
        }
        proceed(listStream, now: now)
    }

    /// Sends rows while credit and output space allow, and fetches more when they are used up.
    func proceed(_ listStream: ListStream, now: Instant) {
        while !listStream.isFetching {
            var sent = 0
            while sent < listStream.rows.count, listStream.credit.available > 0, hasRoom(listStream) {
                responses.sendRow(listStream.rows[sent], to: listStream)
                listStream.credit.spend(1)
                sent += 1
            }
            listStream.rows.removeFirst(sent)
            guard listStream.rows.isEmpty else {
                if listStream.credit.available > 0 { wait(listStream) }
                return
            }
            guard listStream.shard < shards else {
                // The list counts against `listsPerConnection` until its rows have left.
                if listStream.bodyCount > 0 { return wait(listStream) }
                responses.sendCompletion(to: listStream)
                ends.drop(listStream)
                return
            }
            listStream.isFetching = true
            pages.append(listStream)
            fetchNextPage()
        }
    }

    /// If a peer's windows are closed, nothing leaves its stream's body, which limits the room.
    private func hasRoom(_ listStream: ListStream) -> Bool {
        listStream.connection.output.room(limits.output) > 0 && listStream.bodyCount < ListStream.body
    }

    /// Continues when some of the connection's output has been taken.
    private func wait(_ listStream: ListStream) {
        guard !listStream.isWaiting else { return }
        listStream.isWaiting = true
        listStream.connection.waiters.add(listStream)
    }

    /// Discards a list that has ended. If it stayed in `waiters`, its page would stay until the peer reads, perhaps
    /// forever.
    func discard(_ listStream: ListStream) {
        if listStream.isFetching {
            listStream.isOver = true
        } else {
            listStream.connection.streams.listCount -= 1
        }
        if listStream.isWaiting { listStream.connection.waiters.remove(listStream) }
    }

    /// Requests the next page, with a shard message even for this shard's own rows, so that other work runs in between.
    private func fetchNextPage() {
        while let listStream = pages.next() {
            if listStream.isOver {
                listStream.connection.streams.listCount -= 1
            } else {
                pages.underWay = listStream
                let page = ListPage(list: listStream.list, after: listStream.after, principal: listStream.principal)
                send(.listPage(page, for: index), to: listStream.shard)
            }
        }
    }

    /// Takes the rows of the page in flight, which has arrived.
    func listed(_ rows: [Description], _ next: Int?, now: Instant) {
        guard let listStream = pages.takeUnderWay() else { return }
        if listStream.isOver {
            listStream.connection.streams.listCount -= 1
        } else {
            take(rows, next, for: listStream)
            proceed(listStream, now: now)
        }
        fetchNextPage()
    }

    private func take(_ rows: [Description], _ next: Int?, for listStream: ListStream) {
        listStream.isFetching = false
        listStream.rows = rows
        if let next {
            listStream.after = next
        } else {
            listStream.shard += 1
            listStream.after = 0
        }
    }

    /// A page of this shard's rows that `principal` may see, from slot `after` on, and where the next page begins. The
    /// page may be incomplete or even empty, because the number of slots examined is limited.
    func rows(
        of list: BrokerList, after: Int, most: Int = ListStream.page, for principal: Principal, now: Instant
    ) -> (rows: [Description], next: Int?) {
        var rows: [Description] = []
        func gather(_ bound: Int, _ row: (Int) -> Description?) -> Int? {
            var place = after
            let end = after < bound ? after + Swift.min(bound - after, ListStream.places) : after
            while place < end, rows.count < most {
                if let row = row(place) { rows.append(row) }
                place += 1
            }
            return place < bound ? place : nil
        }
        let next: Int?
        switch list {
        case .topics:
            next = gather(topics.placeBound) { place in
                guard let topic = topics.topic(at: place), principal.permissions.show(topic.name) else { return nil }
                return descriptions.describe(topic, now: now)
            }
        case .subscriptions:
            next = gather(streams.bound) { place in
                guard let stream = streams.at(place), stream.isSubscription else { return nil }
                if stream.kind == .pattern {
                    let pattern = stream.asPattern
                    return authorization.mayList(pattern, principal) ? descriptions.describe(pattern, now: now) : nil
                }
                let subscriber = stream.asSubscriber
                return authorization.mayList(subscriber, principal) ? descriptions.describe(subscriber, now: now) : nil
            }
        case .connections:
            next = gather(connections.bound) { place in
                guard let connection = connections.at(place), authorization.mayList(connection, principal) else {
                    return nil
                }
                return descriptions.describe(connection, now: now)
            }
        }
        return (rows, next)
    }
}
