// TopState: the data of `top`: topics with their rates, and the subscriptions that come first in the chosen order. Rows
// arrive one at a time; those that will not be shown are discarded.

/// One topic.
struct TopTopic: Equatable {
    var name = ""
    var state = ""
    var epoch = ""
    var published: UInt64 = 0
    var delivered: UInt64 = 0
    var dropped: UInt64 = 0
    var subscriptions: UInt64 = 0
    var publishers: UInt64 = 0
    var blocked: UInt64 = 0
    var retained: UInt64 = 0
    /// Publishes that the broker refused for lack of resources, and their number per second.
    var lost: UInt64 = 0
    var rateLost: Double = 0
    /// The size of the topic's messages.
    var bytes: UInt64 = 0
    /// How it keeps them, and how many of them a store has not written or NATS has not acknowledged.
    var storage = "memory"
    var uncommitted: UInt64 = 0
    /// What its publishers wait for; empty while none waits.
    var waitsFor = ""
    /// Messages per second since the previous picture.
    var rateIn: Double = 0
    var rateOut: Double = 0

    init() {}

    /// Whether this topic is listed before `other`: topics that need attention come first, then the busiest.
    func isBefore(_ other: TopTopic) -> Bool {
        func trouble(_ topic: TopTopic) -> Int { topic.blocked > 0 ? 2 : topic.rateLost > 0 ? 1 : 0 }
        return (trouble(self), rateIn, published, other.name) > (trouble(other), other.rateIn, other.published, name)
    }

    init(_ row: JSON) {
        func number(_ field: String) -> UInt64 { row[field]?.unsigned ?? 0 }
        name = row["name"]?.text ?? ""
        state = row["state"]?.text ?? ""
        epoch = row["epoch"]?.text ?? ""
        published = number("published")
        delivered = number("delivered")
        dropped = number("dropped")
        subscriptions = number("subscriptions")
        publishers = number("publishers")
        blocked = number("publishers_blocked")
        retained = number("retained")
        lost = number("lost")
        bytes = number("bytes")
        storage = row["storage"]?.text ?? "memory"
        uncommitted = number("uncommitted")
        waitsFor = row["publishers_wait_for"]?.text ?? ""
    }
}

/// One subscription.
struct TopSubscription: Equatable {
    var id = ""
    var topic = ""
    /// The user, if there is one, and the address.
    var client = ""
    var policy = ""
    /// Nil if unbounded.
    var credit: UInt64?
    var waiting: UInt64 = 0
    var buffer: UInt64 = 0
    var dropped: UInt64 = 0
    var behind: UInt64 = 0
    var waitsFor = ""
    /// For a pattern: how many topics it has a position in. Nil for a single topic.
    var cursors: UInt64?
    /// For a pattern: how often a topic was skipped because the subscription had as many as it may have.
    var skipped: UInt64 = 0
    /// How long ago the client last requested messages, how many it has requested in total and how many were delivered;
    /// and both rates per second since the previous picture, if the subscription was in that picture.
    var asked = UInt64.max
    var requested: UInt64?
    var came: UInt64 = 0
    var rates: (asked: Double, came: Double)?

    /// In milliseconds: a subscription with messages waiting for this long is slow, not just about to get them.
    static let slow: UInt64 = 750

    init() {}

    init(_ row: JSON) {
        func number(_ field: String) -> UInt64 { row[field]?.unsigned ?? 0 }
        id = row["id"]?.text ?? ""
        topic = row["topic"]?.text ?? ""
        client = [row["user"]?.text, row["peer"]?.text].compactMap { $0 }.joined(separator: " ")
        policy = row["policy"]?.text ?? ""
        credit = row["outstanding"]?.unsigned
        waiting = number("waiting")
        buffer = number("buffer")
        dropped = number("dropped")
        behind = number("behind_ms")
        waitsFor = row["waits_for"]?.text ?? "nothing"
        cursors = row["cursors"]?.unsigned
        skipped = number("skipped")
        asked = row["asked_ms"]?.unsigned ?? .max
        requested = row["requested"]?.unsigned
        came = number("delivered") &+ waiting &+ dropped
    }

    /// The topic, or the pattern, in how many topics it is active, and how often one was skipped.
    var title: String {
        guard let cursors else { return topic }
        return "\(topic) (\(Units.grouped(cursors)) active\(skipped > 0 ? ", \(Units.grouped(skipped)) skipped" : ""))"
    }

    var isSlow: Bool { waiting > 0 && behind >= TopSubscription.slow }

    var words: String {
        if waitsFor == "topic" { return "waits for topic" }
        guard isSlow else { return "keeping up" }
        if waitsFor != "credit" { return "not reading" }
        // A client that has requested messages since then does grant credit, but not enough.
        if asked >= behind { return "no credit" }
        return rates.map { "asks \(Units.count($0.asked)) of \(Units.count($0.came))/s" } ?? "asks too little"
    }

    /// Computes rates against `before`, taken `seconds` earlier.
    mutating func compare(with before: TopSubscription, seconds: Double) {
        guard let requested, let earlier = before.requested, seconds > 0 else { return }
        rates = (
            Double(requested - min(earlier, requested)) / seconds, Double(came - min(before.came, came)) / seconds
        )
    }

    static func == (a: TopSubscription, b: TopSubscription) -> Bool { a.id == b.id && a.came == b.came }
}

/// The sort order of subscriptions.
enum TopOrder: Character, CaseIterable {
    case behind = "b"
    case waiting = "w"
    case dropped = "d"
    case credit = "c"
    case topic = "t"

    var name: String {
        switch self {
        case .behind: "behind"
        case .waiting: "waiting"
        case .dropped: "dropped"
        case .credit: "credit"
        case .topic: "topic"
        }
    }

    /// Whether `a` comes before `b`.
    func isBefore(_ a: TopSubscription, _ b: TopSubscription) -> Bool {
        switch self {
        case .behind where a.behind != b.behind: a.behind > b.behind
        case .waiting where a.waiting != b.waiting: a.waiting > b.waiting
        case .dropped where a.dropped != b.dropped: a.dropped > b.dropped
        case .credit where a.credit != b.credit: (a.credit ?? .max) < (b.credit ?? .max)
        case .topic where a.topic != b.topic: a.topic < b.topic
        default: (UInt64(a.id) ?? 0, a.id) < (UInt64(b.id) ?? 0, b.id)
        }
    }
}

/// The lists on the screen.
enum TopList {
    case topics, subscriptions
}

struct TopState {
    /// The most rows kept of each list; a screen has fewer.
    static let most = 500

    var address: String
    var order = TopOrder.behind
    var isReversed = false
    var isPaused = false
    /// The list that keys scroll, and how many rows of each list are above the screen.
    var scrolled = TopList.subscriptions
    private(set) var topicsAbove = 0
    private(set) var subscriptionsAbove = 0
    /// From `$SYS.stats`; nil until the first arrives.
    private(set) var stats: JSON?
    /// Losses within the last minute, as text, and when they happened.
    private(set) var loss: (words: String, at: UInt64)?
    private(set) var topics: [TopTopic] = []
    private(set) var subscriptions: [TopSubscription] = []
    /// Totals, including rows that are not kept.
    private(set) var topicCount = 0
    private(set) var subscriptionCount = 0
    private(set) var slowCount = 0
    var note = ""

    private var nextTopics: [TopTopic] = []
    private var nextSubscriptions: [TopSubscription] = []
    private var nextSlow = 0
    private var nextCount = 0
    /// The previous picture, by name, and when it was taken.
    private var before: [String: TopTopic] = [:]
    private var beforeAt: UInt64?
    private var subscriptionsAt: UInt64?

    init(address: String) { self.address = address }

    /// Scrolls the selected list.
    /// - Parameter rooms: how many rows of each list the screen shows.
    mutating func scroll(by rows: Int, _ rooms: (topics: Int, subscriptions: Int)) {
        switch scrolled {
        case .topics: topicsAbove = max(0, min(topicsAbove + rows, topics.count - rooms.topics))
        case .subscriptions:
            subscriptionsAbove = max(0, min(subscriptionsAbove + rows, subscriptions.count - rooms.subscriptions))
        }
    }

    // Figures

    /// Whether the broker's store has failed.
    var isStoreFailed: Bool { stats?["store_failed"] == .bool(true) }

    /// The connection to NATS; nil if the broker shares no topics.
    var upstream: TopUpstream? { stats?["upstream"].map { TopUpstream($0) } }

    private static let shortages = ["memory", "room", "publish_rate", "limit", "store"]

    /// - Parameter now: nanoseconds of the monotonic clock.
    mutating func take(stats: JSON, now: UInt64) {
        defer { self.stats = stats }
        if let loss, now - min(loss.at, now) > 60_000_000_000 { self.loss = nil }
        func number(_ field: String, of stats: JSON?) -> UInt64 { stats?[field]?.unsigned ?? 0 }
        // Losses before the first statistics may be old.
        let isNew = self.stats == nil ? number("lost_per_s", of: stats) > 0 : true
        guard isNew, number("lost", of: stats) > number("lost", of: self.stats) else { return }
        let reasons = TopState.shortages.filter {
            number("lost_to_" + $0, of: stats) > number("lost_to_" + $0, of: self.stats)
        }
        var words = "publishes lost: " + reasons.map { TopState.words(reason: $0, stats) }.joined(separator: ", ")
        words += "; \(Units.rate(Double(number("lost_per_s", of: stats))))"
        loss = (words, now)
    }

    private static func words(reason: String, _ stats: JSON) -> String {
        guard reason == "memory" else { return reason.map { $0 == "_" ? "-" : String($0) }.joined() }
        return "memory (\(memory(stats)))"
    }

    /// The memory that the broker uses, and its limit.
    static func memory(_ stats: JSON) -> String {
        let used = Units.bytes(stats["memory"]?.unsigned ?? 0)
        return stats["memory_limit"]?.unsigned.map { "\(used) of \(Units.bytes($0))" } ?? used
    }

    // Topics

    mutating func beginTopics() {
        nextTopics = []
        nextCount = 0
    }

    mutating func add(topic: TopTopic) {
        guard !topic.name.hasPrefix("$SYS.") else { return }
        nextCount += 1
        nextTopics.append(topic)
        if nextTopics.count >= 2 * TopState.most { keepTopics() }
    }

    /// - Parameter now: nanoseconds of the monotonic clock.
    mutating func endTopics(now: UInt64) {
        let seconds = beforeAt.map { Double(now - min($0, now)) / 1e9 } ?? 0
        for index in nextTopics.indices {
            guard let last = before[nextTopics[index].name], last.epoch == nextTopics[index].epoch, seconds > 0 else {
                continue
            }
            func rate(_ now: UInt64, _ last: UInt64) -> Double { Double(now - min(last, now)) / seconds }
            nextTopics[index].rateIn = rate(nextTopics[index].published, last.published)
            nextTopics[index].rateOut = rate(nextTopics[index].delivered, last.delivered)
            nextTopics[index].rateLost = rate(nextTopics[index].lost, last.lost)
        }
        keepTopics()
        before = Dictionary(nextTopics.map { ($0.name, $0) }, uniquingKeysWith: { _, last in last })
        beforeAt = now
        topics = nextTopics
        topicCount = nextCount
    }

    private mutating func keepTopics() {
        nextTopics.sort { $0.isBefore($1) }
        if nextTopics.count > TopState.most { nextTopics.removeSubrange(TopState.most...) }
    }

    // Subscriptions

    mutating func beginSubscriptions() {
        nextSubscriptions = []
        nextSlow = 0
        nextCount = 0
    }

    mutating func add(subscription: TopSubscription) {
        guard !subscription.topic.hasPrefix("$SYS.") else { return }
        nextCount += 1
        if subscription.isSlow { nextSlow += 1 }
        nextSubscriptions.append(subscription)
        if nextSubscriptions.count >= 2 * TopState.most { keepSubscriptions() }
    }

    /// - Parameter now: nanoseconds of the monotonic clock.
    mutating func endSubscriptions(now: UInt64) {
        keepSubscriptions()
        let seconds = subscriptionsAt.map { Double(now - min($0, now)) / 1e9 } ?? 0
        let before = Dictionary(subscriptions.map { ($0.id, $0) }, uniquingKeysWith: { _, last in last })
        for index in nextSubscriptions.indices {
            guard let last = before[nextSubscriptions[index].id] else { continue }
            nextSubscriptions[index].compare(with: last, seconds: seconds)
        }
        subscriptionsAt = now
        subscriptions = nextSubscriptions
        subscriptionCount = nextCount
        slowCount = nextSlow
    }

    /// Sorts the rows that are kept. Others appear with the next picture.
    mutating func sort() {
        subscriptions.sort { isReversed ? order.isBefore($1, $0) : order.isBefore($0, $1) }
    }

    private mutating func keepSubscriptions() {
        nextSubscriptions.sort { isReversed ? order.isBefore($1, $0) : order.isBefore($0, $1) }
        if nextSubscriptions.count > TopState.most { nextSubscriptions.removeSubrange(TopState.most...) }
    }
}
