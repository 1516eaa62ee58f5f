// HTTPUsers: for whom a connection's requests are made, each of which may have a user of its own.

struct HTTPUsers {
    /// The credentials of the latest request that was let in by any, and who made it.
    var login: (authorization: String, principal: Principal)?
    /// When what somebody showed may expire, in nanoseconds since 1970.
    var expiry = Earliest<Int64>()
    /// Users with requests under way, and with how many. No more than there are streams.
    private var speakers: [(account: Account, requests: Int)] = []

    /// Bytes of memory that the credentials take.
    var memory: Int { login?.authorization.utf8.count ?? 0 }

    /// Whether a request of that user is under way.
    func speaks(for account: Account) -> Bool { speakers.contains { $0.account === account } }

    /// It is known whose request it is.
    mutating func begin(_ exchange: Exchange) {
        guard let account = exchange.meter?.account else { return }
        if let place = speakers.firstIndex(where: { $0.account === account }) {
            speakers[place].requests += 1
        } else {
            speakers.append((account, 1))
        }
    }

    /// The connection counts for a user no more when that one's last request is over, unless it was the latest of all.
    mutating func end(_ exchange: Exchange) {
        guard let account = exchange.meter?.account,
            let place = speakers.firstIndex(where: { $0.account === account })
        else { return }
        assert(speakers[place].requests > 0)
        speakers[place].requests -= 1
        guard speakers[place].requests == 0 else { return }
        speakers.remove(at: place)
        if account !== exchange.connection.meter?.account { account.connections.give() }
    }

    /// The connection is over. Hands out for whom it spoke.
    mutating func endAll(_ each: (Account) -> Void) {
        for speaker in speakers { each(speaker.account) }
        speakers.removeAll()
    }
}

/// The earliest of some moments, any of which may come to nothing.
struct Earliest<Time: FixedWidthInteger> {
    /// Nil when there is none.
    private(set) var time: Time?

    mutating func note(_ time: Time) { self.time = Swift.min(self.time ?? .max, time) }

    /// Forgets it once it has come: those that are later have to be noted again. Returns whether it has.
    mutating func take(now: Time) -> Bool {
        guard let time, time <= now else { return false }
        self.time = nil
        return true
    }
}
