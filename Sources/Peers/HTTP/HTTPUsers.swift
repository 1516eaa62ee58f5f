// HTTPUsers: the users of a connection's requests, each of which may have a different user.

struct HTTPUsers {
    /// The credentials of the latest request that was admitted with any, and that request's user.
    var login: (authorization: String, principal: Principal)?
    /// When the earliest credentials used may expire, in nanoseconds since 1970.
    var expiry = Earliest<Int64>()
    /// Users with requests in progress, and the number of their requests. There are at most as many users as streams.
    private var speakers: [(account: Account, requests: Int)] = []

    /// Bytes of memory that the credentials take.
    var memory: Int { login?.authorization.utf8.count ?? 0 }

    /// Whether a request of that user is in progress.
    func speaks(for account: Account) -> Bool { speakers.contains { $0.account === account } }

    /// Counts a request for its user, who is now known.
    mutating func begin(_ exchange: Exchange) {
        guard let account = exchange.rateLimit?.account else { return }
        if let place = speakers.firstIndex(where: { $0.account === account }) {
            speakers[place].requests += 1
        } else {
            speakers.append((account, 1))
        }
    }

    /// Stops counting the connection for a user whose last request has ended, unless that user made the latest request
    /// of all.
    mutating func end(_ exchange: Exchange) {
        guard let account = exchange.rateLimit?.account,
            let place = speakers.firstIndex(where: { $0.account === account })
        else { return }
        assert(speakers[place].requests > 0)
        speakers[place].requests -= 1
        guard speakers[place].requests == 0 else { return }
        speakers.remove(at: place)
        if account !== exchange.connection.rateLimit?.account { account.connections.give() }
    }

    /// Calls `each` with the users of the requests of a connection that has ended.
    mutating func endAll(_ each: (Account) -> Void) {
        for speaker in speakers { each(speaker.account) }
        speakers.removeAll()
    }
}

/// The earliest of several times, some of which may no longer apply.
struct Earliest<Time: FixedWidthInteger> {
    /// The earliest time; nil if there is none.
    private(set) var time: Time?

    mutating func note(_ time: Time) { self.time = Swift.min(self.time ?? .max, time) }

    /// Clears the time if it has passed; later times must be noted again. Returns whether the time had passed.
    mutating func take(now: Time) -> Bool {
        guard let time, time <= now else { return false }
        self.time = nil
        return true
    }
}
