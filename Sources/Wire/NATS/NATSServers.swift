// NATSServers: the servers of a cluster, and which of them to try next.
//
// The servers are tried in turn. When all have failed, the next round begins after a wait, which doubles with each
// round. A connection that soon ends counts as a failed attempt, so that a server that accepts and then closes does not
// cause a tight loop.

import Bytes

/// The known servers: configured ones, and those that the servers' INFO names.
public struct NATSServers: Sendable {
    /// Limits; times are nanoseconds.
    public struct Limits: Sendable {
        /// Configured servers, and discovered ones in addition.
        public static let maxConfigured = 64
        public static let maxDiscovered = 64
        /// The wait after the first round, and the longest one. The actual wait is between half of it and all of it.
        public var firstWait: UInt64 = 100_000_000
        public var maxWait: UInt64 = 5_000_000_000
        /// A connection that was ready for this long was a success: the next wait is the first one again.
        public var stableTime: UInt64 = 10_000_000_000

        public init() {}
    }

    /// An attempt to connect.
    public struct Attempt: Equatable, Sendable {
        public var server: NATSServerAddress
        /// When to begin.
        public var time: UInt64
    }

    private struct Entry {
        var server: NATSServerAddress
        var isDiscovered: Bool
    }

    private let limits: Limits
    /// In the order in which they will be tried. The last `tried` ones have been tried in this round.
    private var entries: [Entry]
    /// The server that was tried last.
    private var current: NATSServerAddress
    /// Servers tried in this round, at most all of them, and complete rounds without success.
    private var tried = 0
    private var rounds = 0
    /// When the current connection became ready.
    private var readySince: UInt64?

    /// - Parameter setting: URLs of servers, separated by commas; see `NATSServerAddress`.
    /// - Throws: if a URL is malformed, or there are none or more than `Limits.maxConfigured`.
    public init(parsing setting: String, limits: Limits = Limits()) throws(NATSError) {
        var servers: [NATSServerAddress] = []
        for part in setting.split(separator: ",", omittingEmptySubsequences: false) {
            var part = part
            while part.first == " " { part = part.dropFirst() }
            while part.last == " " { part = part.dropLast() }
            let server = try NATSServerAddress(parsing: part)
            guard !servers.contains(where: server.isSame) else {
                throw .call(.invalid, "The NATS server \(server) is listed twice.")
            }
            servers.append(server)
        }
        guard servers.count <= Limits.maxConfigured else {
            throw .call(.limit, "There are more than \(Limits.maxConfigured) NATS servers.")
        }
        self.limits = limits
        entries = servers.map { Entry(server: $0, isDiscovered: false) }
        current = servers[0]
    }

    /// Puts the servers that were not tried in this round into a random order. Without it, all clients with the same
    /// setting would try the same server first.
    public mutating func shuffle(using generator: inout some RandomNumberGenerator) {
        entries[..<(entries.count - tried)].shuffle(using: &generator)
    }

    /// All servers, in the order in which they will be tried.
    public var all: [NATSServerAddress] { entries.map(\.server) }

    /// The server to try next, and when.
    /// - Parameters:
    ///   - now: the time, in nanoseconds.
    ///   - random: any number; varies the wait.
    public mutating func next(now: UInt64, random: UInt64) -> Attempt {
        if let since = readySince, now >= since, now - since >= limits.stableTime {
            tried = 0
            rounds = 0
        }
        readySince = nil
        var time = now
        if tried >= entries.count {
            time = now.addingClamped(wait(random))
            tried = 0
            rounds += 1
        }
        tried += 1
        let entry = entries.removeFirst()
        entries.append(entry)
        current = entry.server
        return Attempt(server: entry.server, time: time)
    }

    /// Between half of the wait for this round and all of it.
    private func wait(_ random: UInt64) -> UInt64 {
        let doubled = limits.firstWait.multipliedReportingOverflow(by: 1 << UInt64(min(rounds, 32)))
        let wait = doubled.overflow ? limits.maxWait : min(doubled.partialValue, limits.maxWait)
        let half = wait / 2
        return wait - (half > 0 ? random % (half + 1) : 0)
    }

    /// The connection to the server of the latest attempt is ready.
    public mutating func connected(now: UInt64) { readySince = now }

    /// Replaces the discovered servers by those that the INFO of the current server names. Malformed URLs are ignored,
    /// and so are those beyond `Limits.maxDiscovered`.
    ///
    /// A discovered server is used like the one that named it, with the same credentials and, if it is an IP address
    /// and that one has a name, with a certificate for that name.
    public mutating func discovered(_ urls: [String]) {
        var found: [NATSServerAddress] = []
        for url in urls where found.count < Limits.maxDiscovered {
            guard var server = try? NATSServerAddress(parsing: url), !found.contains(where: server.isSame) else {
                continue
            }
            server.credentials = current.credentials
            server.requiresTLS = current.requiresTLS
            if server.isIP, !NATSServerAddress.isIP(current.tlsName) { server.tlsName = current.tlsName }
            found.append(server)
        }
        let isKnown = { (entry: Entry) in !entry.isDiscovered || found.contains(where: entry.server.isSame) }
        var untried = entries.dropLast(tried).filter(isKnown)
        let others = entries.suffix(tried).filter(isKnown)
        for server in found where !(untried + others).contains(where: { server.isSame(as: $0.server) }) {
            untried.append(Entry(server: server, isDiscovered: true))
        }
        entries = untried + others
        tried = others.count
    }
}
