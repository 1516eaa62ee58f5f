// Journal: which message is where. Every message has a unique number in its text; the journal knows who published it,
// and learns its place from the broker's logs, from deliveries and from acknowledgements. All these must agree.

import Glibc

/// A message that a client sent.
struct Published {
    enum Strength { case fireAndForget, acknowledged, channel }

    var topic: String
    var strength: Strength
    /// For a channel: which channel, and the index of the message in it, from 0.
    var channel: Int
    var index: Int
    var size: Int
    /// Whether the message has metadata, which then contains its number again.
    var hasMetadata: Bool
    /// Whether the message has a number, and may be published again after it was refused or lost.
    var isNumbered = false
    var isRefused = false
    /// Whether the message was in its topic and the store has refused it, or lost it before it was committed.
    var isWithdrawn = false
    /// Whether a crash has lost the message, which may have been seen, because its topic is relaxed.
    var isLost = false
    var place: Place?
}

struct Place: Equatable {
    var epoch: UInt64
    var sequence: UInt64
}

final class Journal {
    private struct Order: Hashable {
        let client: ObjectIdentifier
        let topic: String
    }

    var messages: [Published] = []
    var topics: [UInt64: TopicLedger] = [:]
    /// The places of channels' messages, by channel and index.
    private var channels: [[Place?]] = []
    /// What a client sent to a topic outside of channels, in order, and the index of each message in that order.
    private var orders: [Order: [Int]] = [:]
    private var inOrders: [Int: (order: Order, index: Int)] = [:]
    /// Names of topics that clients deleted: a topic that was created and deleted at the same moment was never
    /// observed.
    var deleted: Set<String> = []
    /// Excerpts of the broker's reasons for refusing a message.
    let refusals: [String]
    let referee: Referee

    init(_ referee: Referee, refusals: [String] = publishRefusals) {
        self.referee = referee
        self.refusals = refusals
    }

    // What clients do

    /// Registers a new message and returns its number, with which its text begins.
    func publish(_ message: Published) -> Int {
        messages.append(message)
        if message.strength == .channel { channels[message.channel].append(nil) }
        return messages.count - 1
    }

    /// Notes that a client sends a fire-and-forget or acknowledged message, on a connection that preserves order.
    func sends(_ number: Int, _ client: any VirtualClient) {
        let order = Order(client: ObjectIdentifier(client), topic: messages[number].topic)
        inOrders[number] = (order, orders[order]?.count ?? 0)
        orders[order, default: []].append(number)
    }

    func openChannel() -> Int {
        channels.append([])
        return channels.count - 1
    }

    static func text(_ number: Int, size: Int) -> String {
        let first = "m\(number)."
        guard first.utf8.count < size else { return first }
        let unit = "\(number)x"
        let count = (size - first.utf8.count + unit.utf8.count - 1) / unit.utf8.count
        // A long text consists of long parts.
        let part = String(repeating: unit, count: Swift.min(count, 1000))
        return first + String(repeating: part, count: count / 1000)
            + String(part.prefix((count < 1000 ? count : count % 1000) * unit.utf8.count))
    }

    /// The number in a text; nil if no client published such a text.
    private func number(in payload: some Collection<UInt8>) -> Int? {
        guard payload.first == UInt8(ascii: "m") else { return nil }
        var number = 0
        for byte in payload.dropFirst().prefix(9) {
            guard (48...57).contains(byte) else { break }
            number = number * 10 + Int(byte - 48)
        }
        guard number < messages.count else { return nil }
        let text = Journal.text(number, size: messages[number].size)
        let isSame = payload.withContiguousStorageIfAvailable { payload in
            text.utf8.withContiguousStorageIfAvailable { text in
                payload.count == text.count && memcmp(payload.baseAddress!, text.baseAddress!, text.count) == 0
            }
        }
        return (isSame ?? nil) ?? payload.elementsEqual(text.utf8) ? number : nil
    }

    // Observations

    func topic(_ epoch: UInt64) -> TopicLedger? { topics[epoch] }

    func topic(_ epoch: UInt64, named name: String) -> TopicLedger {
        if let topic = topics[epoch] { return topic }
        referee.expect(epoch != 0, "the topic '\(name)' has epoch 0")
        let topic = TopicLedger(name: name, epoch: epoch)
        topics[epoch] = topic
        return topic
    }

    /// A topic that came and went between two inspections; nil if no topic of that name was deleted.
    func unseen(_ epoch: UInt64, _ name: String) -> TopicLedger? {
        guard deleted.contains(name) else { return nil }
        let topic = topic(epoch, named: name)
        topic.isGone = true
        return topic
    }

    /// Notes that a payload was observed at a place: in a log, or delivered. Returns its number.
    @discardableResult
    func saw(_ payload: some Collection<UInt8>, at sequence: UInt64, of topic: TopicLedger) -> Int? {
        guard let number = number(in: payload) else {
            referee.fail("message \(sequence) of '\(topic.name)' was not published by any client")
            return nil
        }
        place(number, at: sequence, of: topic)
        return number
    }

    /// The number of a delivered payload, wherever it is.
    func known(_ payload: some Collection<UInt8>) -> Int? {
        let number = number(in: payload)
        referee.expect(number != nil, "a message was delivered that no client published")
        return number
    }

    func place(_ number: Int, at sequence: UInt64, of topic: TopicLedger) {
        let message = messages[number]
        let place = Place(epoch: topic.epoch, sequence: sequence)
        if message.place == place { return }
        referee.expect(
            message.topic == topic.name, "message m\(number) of '\(message.topic)' is in '\(topic.name)'")
        referee.expect(
            message.place == nil, "message m\(number) occurs twice: at \(place), and at \(message.place ?? place)")
        referee.expect(
            topic.numbers[sequence] == nil,
            "two messages are at \(sequence) of '\(topic.name)': m\(number) and m\(topic.numbers[sequence] ?? 0)")
        referee.expect(
            !message.isRefused,
            "message m\(number) (\(message.strength)) was refused or withdrawn, but is at \(place)")
        referee.expect(
            sequence < topic.end || topic.isGone,
            "message m\(number) was seen at \(sequence), beyond the end of '\(topic.name)'")
        messages[number].place = place
        topic.numbers[sequence] = number
        if message.strength == .channel { order(message, number, place) }
        expectInOrder(number, place)
    }

    /// Checks that publishes that wait for room are appended in the order in which they arrived, and later ones after
    /// them.
    private func expectInOrder(_ number: Int, _ place: Place) {
        guard let (order, index) = inOrders[number], let all = orders[order] else { return }
        let isElsewhere = { (other: Int) in self.messages[other].place?.epoch != place.epoch }
        let before = all[..<index].last { !isElsewhere($0) }
        let behind = all[(index + 1)...].first { !isElsewhere($0) }
        for (first, second) in [(before, number), (number, behind)] {
            guard let first, let second, let one = messages[first].place, let other = messages[second].place else {
                continue
            }
            referee.expect(
                one.sequence < other.sequence,
                "message m\(second) is at \(other.sequence), ahead of m\(first), which was sent earlier")
        }
    }

    /// Checks that messages of a channel are in the order in which they were sent.
    private func order(_ message: Published, _ number: Int, _ place: Place) {
        let all = channels[message.channel]
        if message.index > 0, let before = all[message.index - 1] {
            referee.expect(
                before.epoch == place.epoch && before.sequence < place.sequence,
                "message m\(number) of a channel is at \(place.sequence), ahead of one that was sent earlier")
        }
        if message.index + 1 < all.count, let behind = all[message.index + 1] {
            referee.expect(
                behind.epoch == place.epoch && behind.sequence > place.sequence,
                "message m\(number) of a channel is at \(place.sequence), after one that was sent later")
        }
        channels[message.channel][message.index] = place
    }

    /// Changes the place of a message that has one.
    func move(_ number: Int, to place: Place?) {
        messages[number].place = place
        let message = messages[number]
        if message.strength == .channel { channels[message.channel][message.index] = place }
    }

    /// Notes that a message is no longer published or parked: if it has no place by now, it will not get one.
    func withdrawn(_ number: Int) {
        if messages[number].place == nil { messages[number].isRefused = true }
    }

    /// Withdraws fire-and-forget publishes without a place: these are appended at once, or never.
    func withdrawFired() {
        for number in messages.indices where messages[number].strength == .fireAndForget { withdrawn(number) }
    }

    func refused(_ number: Int, _ why: String) {
        let message = messages[number]
        // Nothing is known of the last moment of a topic.
        let topic = message.place.flatMap { place in
            topics[place.epoch].flatMap { $0.isGone && place.sequence >= $0.committed ? $0 : nil }
        }
        referee.expect(
            message.place == nil || topic != nil,
            "message m\(number) (\(message.strength)) was refused, but is in its topic: \(why)")
        messages[number].isRefused = true
    }

    /// Notes that the broker acknowledged a message at this sequence.
    func acknowledged(_ number: Int, at sequence: UInt64) {
        let message = messages[number]
        guard let place = message.place else {
            return referee.expect(
                !message.isWithdrawn && mayStand(number, at: sequence),
                "m\(number) was acknowledged as \(sequence) of '\(message.topic)', but is not in the topic")
        }
        if let topic = topics[place.epoch], !topic.isGone {
            referee.expect(
                sequence < topic.committed, "m\(number) was acknowledged as \(sequence), which is not committed")
        }
        referee.expect(
            place.sequence == sequence, "m\(number) was acknowledged as \(sequence), but is at \(place.sequence)")
    }

    /// Whether a message may have been appended: it was observed, or it was removed at the moment it arrived and not
    /// observed.
    func mayStand(_ number: Int, at sequence: UInt64? = nil) -> Bool {
        let message = messages[number]
        if message.place != nil || deleted.contains(message.topic) { return true }
        if message.isWithdrawn { return false }
        return topics.values.contains {
            guard $0.name == message.topic else { return false }
            guard let sequence else { return $0.isGone || $0.numbers.count < $0.end - 1 }
            return (sequence < $0.end || $0.isGone) && $0.numbers[sequence] == nil
        }
    }
}
