// BenchSettings: the settings of `bench`.

import Client
import ForebayWire

struct BenchSettings {
    let topic: String
    /// Whether the topic belongs to this run: its name is generated, and it is deleted afterwards.
    let isOwnTopic: Bool
    let subscribers: Int
    let publishers: Int
    /// Bytes per payload.
    let size: Int
    /// The total number of messages of all publishers; nil if the run is limited by time.
    let count: UInt64?
    /// How long messages are published, in nanoseconds, if `count` is nil.
    let duration: UInt64
    /// Messages per second of all publishers together; nil for as fast as credit allows.
    let rate: Double?
    let request: UInt32?
    let overflow: Overflow
    let buffer: UInt32?
    let ack: Bool
    let json: Bool
    /// Distinguishes this run's messages from others on the same topic.
    let tag: UInt32

    static let subscriberLimit: UInt64 = 10_000
    static let publisherLimit: UInt64 = 100
    static let longest: Double = 86_400
    private static let defaultSeconds: Double = 5
    private static let defaultSize: UInt64 = 128

    init(_ arguments: Arguments) throws(UsageError) {
        tag = UInt32.random(in: 0...UInt32.max)
        isOwnTopic = arguments.operands.isEmpty
        topic = arguments.operands.first ?? "bench." + String(UInt64.random(in: 1 << 60...UInt64.max), radix: 16)
        subscribers = Int(arguments.number("subscribers") ?? 1)
        publishers = Int(arguments.number("publishers") ?? 1)
        size = Int(arguments.number("size") ?? Self.defaultSize)
        count = arguments.number("count")
        duration = UInt64((arguments.decimal("seconds") ?? Self.defaultSeconds) * 1e9)
        rate = arguments.decimal("rate")
        request = arguments.number("request").map { UInt32($0) }
        overflow = arguments.text("overflow").flatMap { Overflow(name: $0) } ?? .block
        buffer = arguments.number("buffer").map { UInt32($0) }
        ack = arguments.has("ack")
        json = arguments.has("json")
        if count != nil, arguments.has("seconds") {
            throw UsageError("--count and --seconds are mutually exclusive; both set the end.")
        }
        if rate != nil, size < BenchMessage.headerSize {
            throw UsageError(
                "--rate needs a --size of \(BenchMessage.headerSize) or more; each message carries a number that "
                    + "determines its scheduled time.")
        }
        if topic.hasPrefix("$SYS.") {
            throw UsageError("'\(topic)' is the broker's own; clients cannot publish there.")
        }
        try SubscribeSettings.check(topic: topic)
    }

    /// The options of the subscriptions.
    var subscription: SubscribeOptions {
        var options = SubscribeOptions()
        options.overflow = overflow
        options.buffer = buffer
        return options
    }

    /// Whether messages are long enough for a header.
    var isNumbered: Bool { size >= BenchMessage.headerSize }

    /// The schedule of messages that begin at `start`; nil without a rate.
    func schedule(start: UInt64) -> BenchSchedule? {
        rate.map { BenchSchedule(start: start, interval: 1e9 / $0, publishers: publishers) }
    }

    /// How many messages publisher `index` sends: its share of the count, or of what is due in the time.
    func quota(of index: Int) -> UInt64 {
        let due = rate.map { UInt64(($0 * Double(duration) / 1e9).rounded(.up)) }
        guard let all = count ?? due else { return UInt64.max }
        let publishers = UInt64(publishers)
        return all / publishers + (UInt64(index) < all % publishers ? 1 : 0)
    }
}

/// An open loop: every message has a due time that does not depend on earlier messages. Publishers alternate.
struct BenchSchedule {
    let start: UInt64
    /// Nanoseconds between two consecutive messages, of any publisher.
    let interval: Double
    let publishers: Int

    /// When message `number` (from 0) of a publisher is due, in nanoseconds of the monotonic clock.
    func due(_ publisher: Int, _ number: UInt64) -> UInt64 {
        start + UInt64(Double(number) * Double(publishers) * interval + Double(publisher) * interval)
    }
}
