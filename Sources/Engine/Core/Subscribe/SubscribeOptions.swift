// SubscribeOptions: the options of a subscription, with the same names in every protocol.

import ForebayWire
import Replay

struct SubscribeOptions: Sendable {
    static let names = ["replay", "from", "epoch", "since", "buffer", "overflow", "gap", "meta", "demand", "opening"]
    private static let exclusive = [("replay", "from"), ("replay", "since"), ("from", "since")]
    static let defaultBuffer: UInt64 = 1024
    static let largestBuffer: UInt64 = (1 << 31) - 1

    var start: Start = .next
    /// The epoch of `from`; nil means the topic's current one.
    var epoch: UInt64?
    /// If set, the subscription begins at this time instead of at `start`.
    var since: StartTime?
    var buffer = Int(defaultBuffer)
    var overflow: Overflow = .dropOldest
    /// Whether the subscription is refused if a gap precedes its first message.
    var gapFails = false
    var meta = false
    var demand: Credit.Mode = .outstanding
    /// Whether the position is sent before the first message.
    var opening = false

    init() {}

    init(_ route: Route) throws(Refusal) {
        try route.expect(SubscribeOptions.names, for: "a subscription")
        meta = try route.choice("meta", [("on", true), ("off", false)]) ?? false
        demand =
            try route.choice("demand", [("outstanding", .outstanding), ("cumulative", .cumulative)]) ?? .outstanding
        opening = try route.choice("opening", [("on", true), ("off", false)]) ?? false
        buffer = Int(try route.number("buffer", 1...SubscribeOptions.largestBuffer) ?? SubscribeOptions.defaultBuffer)
        overflow = try route.choice("overflow", Overflow.allCases.map { ($0.name, $0) }) ?? .dropOldest
        try takeStart(route)
        let gap = try route.choice("gap", [("tell", false), ("fail", true)])
        if route["from"] != nil, !meta {
            // Without metadata a gap could not be reported.
            guard gap != false else {
                throw .invalid("gap=tell with from requires meta=on, because gaps are reported in metadata.")
            }
            gapFails = true
        } else {
            gapFails = gap ?? false
        }
    }

    /// The credit of a subscription that begins with a request for `n` messages.
    func credit(_ n: UInt32) throws(Refusal) -> Credit {
        var credit = Credit(mode: demand)
        guard credit.add(n) else {
            throw .invalid("REQUEST_STREAM with an initial n of 0 is not allowed; request 1 or more.")
        }
        return credit
    }

    /// The same options with `since` as a time. To be taken when the request arrives, because views may attach later.
    func resolved(now: Instant) -> SubscribeOptions {
        var options = self
        options.since = since.map { .at($0.resolved(now: now.wall)) }
        return options
    }

    private mutating func takeStart(_ route: Route) throws(Refusal) {
        for (one, other) in SubscribeOptions.exclusive where route[one] != nil && route[other] != nil {
            throw .invalid("\(one) and \(other) exclude each other; give only one of them.")
        }
        epoch = try route.number("epoch", 1...UInt64.max)
        if let sequence = try route.number("from", 1...UInt64.max) {
            start = .from(SequenceNumber(sequence))
            return
        }
        guard epoch == nil else { throw .invalid("epoch requires from; give both.") }
        if let text = route["since"] {
            do throws(StartTime.Fault) { since = try StartTime(text) } catch { throw .invalid(error.description) }
            return
        }
        guard let replay = route["replay"] else { return }
        if replay == "all" {
            start = .all
        } else {
            guard let count = try? route.number("replay", 0...UInt64.max) else {
                throw .invalid("replay=\(replay) is neither a number nor all.")
            }
            start = .last(count)
        }
    }
}
