// Listings: REQUEST_STREAM on `$SYS.topics`, `$SYS.subscriptions` and `$SYS.connections`: one JSON object per item,
// under the peer's credit, then the end. Rows are fetched from one shard after the other in pages, as they are asked
// for, so that a list of any length takes no more memory than a page.

import Bytes
import Replay
import RSocket

enum SystemList: Sendable, CaseIterable {
    case topics, subscriptions, connections

    var name: String {
        switch self {
        case .topics: "$SYS.topics"
        case .subscriptions: "$SYS.subscriptions"
        case .connections: "$SYS.connections"
        }
    }

    init?(name: String) {
        guard let list = SystemList.allCases.first(where: { $0.name == name }) else { return nil }
        self = list
    }
}

final class Listing: BoundStream {
    /// Rows fetched at a time.
    static let page = 64

    let list: SystemList
    var credit: Credit
    var rows: [String] = []
    /// The shard whose rows are due, and where on it to go on. Past the last shard the list is at its end.
    var shard = 0
    var after = 0
    var isFetching = false
    /// It is in its connection's `waitingListings`.
    var isWaiting = false

    init(list: SystemList, credit: Credit, connection: Connection, stream: UInt32, handle: Handle) {
        self.list = list
        self.credit = credit
        super.init(kind: .listing, connection: connection, stream: stream, handle: handle)
    }
}

extension Shard {
    func openListing(
        _ connection: Connection, stream: UInt32, initialN: UInt32, _ list: SystemList, now: Instant
    ) throws(Refusal) {
        guard connection.listings < limits.listingsPerConnection else {
            throw .rejected(
                "The connection has \(limits.listingsPerConnection) lists under way, the most allowed; "
                    + "read one to its end.")
        }
        connection.listings += 1
        var credit = Credit(mode: .outstanding)
        _ = credit.add(initialN)
        let bound = streams.insert {
            Listing(list: list, credit: credit, connection: connection, stream: stream, handle: $0)
        }
        connection.attach(bound)
        proceed(unsafeDowncast(bound, to: Listing.self), now: now)
    }

    func request(_ n: UInt32, of listing: Listing, now: Instant) {
        guard listing.credit.add(n) else {
            fail(listing, .invalid("REQUEST_N of 0 is not allowed; ask for 1 or more."))
            return
        }
        proceed(listing, now: now)
    }

    /// Sends rows as far as credit and output allow, and fetches more when they are used up.
    func proceed(_ listing: Listing, now: Instant) {
        while !listing.isFetching {
            var sent = 0
            while sent < listing.rows.count, listing.credit.available > 0,
                listing.connection.output.count < limits.output
            {
                sayRow(listing.rows[sent], to: listing)
                listing.credit.spend(1)
                sent += 1
            }
            listing.rows.removeFirst(sent)
            guard listing.rows.isEmpty else {
                if listing.credit.available > 0, !listing.isWaiting {
                    listing.isWaiting = true
                    listing.connection.waitingListings.append(listing)
                }
                return
            }
            guard listing.shard < shards else {
                sayCompleted(to: listing)
                drop(listing)
                return
            }
            fetch(listing, now: now)
        }
    }

    private func fetch(_ listing: Listing, now: Instant) {
        listing.isFetching = true
        if listing.shard == index {
            let (rows, next) = rows(of: listing.list, after: listing.after, now: now)
            take(rows, next, for: listing)
        } else {
            send(.listPage(key(listing), listing.list, after: listing.after), to: listing.shard)
        }
    }

    func listed(_ key: StreamKey, _ rows: [String], _ next: Int?, now: Instant) {
        guard let bound = streams[key.handle], bound.kind == .listing else { return }
        let listing = unsafeDowncast(bound, to: Listing.self)
        take(rows, next, for: listing)
        proceed(listing, now: now)
    }

    private func take(_ rows: [String], _ next: Int?, for listing: Listing) {
        listing.isFetching = false
        listing.rows = rows
        if let next {
            listing.after = next
        } else {
            listing.shard += 1
            listing.after = 0
        }
    }

    /// A page of this shard's rows from place `after` on, and where the next page begins.
    func rows(of list: SystemList, after: Int, now: Instant) -> (rows: [String], next: Int?) {
        var rows: [String] = []
        var place = after
        switch list {
        case .topics:
            while place < topicPlaces.bound, rows.count < Listing.page {
                if let topic = topicPlaces.at(place) { rows.append(describe(topic)) }
                place += 1
            }
            return (rows, place < topicPlaces.bound ? place : nil)
        case .subscriptions:
            while place < streams.bound, rows.count < Listing.page {
                if let stream = streams.at(place), stream.kind == .subscriber {
                    rows.append(describe(unsafeDowncast(stream, to: Subscriber.self)))
                }
                place += 1
            }
            return (rows, place < streams.bound ? place : nil)
        case .connections:
            while place < connections.bound, rows.count < Listing.page {
                if let connection = connections.at(place) { rows.append(describe(connection, now: now)) }
                place += 1
            }
            return (rows, place < connections.bound ? place : nil)
        }
    }

    private func describe(_ subscriber: Subscriber) -> String {
        let cursor = subscriber.knownCursor
        let credit = cursor?.credit ?? subscriber.early
        var object = JSONObject()
        object.add("id", subscriber.id)
        object.add("topic", subscriber.mirror.name)
        object.add("connection", text(subscriber.connection.id))
        object.add("stream", subscriber.stream)
        object.add("peer", subscriber.connection.peer)
        object.add("policy", subscriber.options.overflow.name)
        object.add("buffer", subscriber.options.buffer)
        if credit.isUnbounded {
            object.add("requested", "unbounded")
            object.add("outstanding", "unbounded")
        } else {
            object.add("requested", credit.requested)
            object.add("outstanding", credit.outstanding)
        }
        object.add("delivered", cursor?.delivered ?? 0)
        object.add("waiting", cursor?.waiting ?? 0)
        object.add("dropped", cursor?.dropped ?? 0)
        object.add("missed", cursor?.missedAtStart ?? 0)
        object.add("next", cursor?.cursor.value ?? 0)
        object.add("meta", subscriber.options.meta)
        return object.finished()
    }

    private func describe(_ connection: Connection, now: Instant) -> String {
        var object = JSONObject()
        object.add("id", text(connection.id))
        object.add("peer", connection.peer)
        object.add("shard", index)
        object.add("age_ms", (now.monotonic - Swift.min(now.monotonic, connection.openedAt)) / 1_000_000)
        object.add("streams", connection.streams.count)
        object.add("subscriptions", connection.subscriptions)
        object.add("publishers", connection.publishers)
        object.add("bytes_in", connection.bytesIn)
        object.add("bytes_out", connection.bytesOut)
        object.add("output", connection.output.count)
        object.add("control", connection.output.controlCount)
        object.add("copied", connection.output.copied)
        return object.finished()
    }
}
