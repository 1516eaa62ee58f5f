// Journal: what stands where. Every message has a number of its own in its text; the journal knows who published it,
// and learns from the broker's logs, from deliveries and from acknowledgements which place it got. All must agree.

import Glibc

/// A message that a client sent.
struct Published {
    enum Strength { case fire, acknowledged, channel }

    var topic: String
    var strength: Strength
    /// Of a channel: which one, and the place of the message among its messages, from 0.
    var channel: Int
    var index: Int
    var size: Int
    /// Whether it brings metadata, which is then its number once more.
    var hasMetadata: Bool
    var isRefused = false
    var place: Place?
}

struct Place: Equatable {
    var epoch: UInt64
    var sequence: UInt64
}

/// A topic, from when it was made to its end, as the ledgers have it.
final class TopicLedger {
    let name: String
    let epoch: UInt64
    /// How it has been: "live", "completed", "failed". Who has not been told one end may be told the next.
    var states: Set<String> = ["live"]
    /// No shard has it any more; what came in its last moment was not seen.
    var isGone = false
    /// What the next message will be.
    var end: UInt64 = 1
    /// Messages before this are committed; all of them if no store keeps the topic.
    var committed: UInt64 = 1
    /// Messages by their sequence, as far as they are known.
    var numbers: [UInt64: Int] = [:]
    var charges: [UInt64: Int] = [:]
    /// A shard that is a MiB behind is told later of what follows, though it is acknowledged: who joins there meanwhile
    /// gets it as if it came later.
    var mayLag: Bool { charges.values.reduce(0, +) > 1 << 20 }
    /// As last seen.
    var head: UInt64 = 1
    /// As `head`, with what its store has.
    var kept: UInt64 = 1
    var lost: UInt64 = 1
    var forgotten: UInt64 = 1
    var horizon: UInt64?
    /// Bytes of its log, and whether a `block` subscription kept some of them.
    var bytes = 0
    var isBlocked = false
    /// What its channels had been granted and not used, and what part of that had room reserved.
    var outstanding = 0
    var reserved = 0

    init(name: String, epoch: UInt64) {
        self.name = name
        self.epoch = epoch
    }
}

final class Journal {
    private struct Order: Hashable {
        let client: ObjectIdentifier
        let topic: String
    }

    private(set) var messages: [Published] = []
    private var topics: [UInt64: TopicLedger] = [:]
    /// The places of a channel's messages, by channel and index.
    private var channels: [[Place?]] = []
    /// What one client sent to one topic beside its channels, in order, and the place of a message in that.
    private var orders: [Order: [Int]] = [:]
    private var inOrders: [Int: (order: Order, index: Int)] = [:]
    /// Names of topics that clients have had deleted: one that was made and deleted in the same moment was never seen.
    var deleted: Set<String> = []
    private let referee: Referee

    init(_ referee: Referee) { self.referee = referee }

    // What clients do

    /// A new message's number; its text begins with it.
    func publish(_ message: Published) -> Int {
        messages.append(message)
        if message.strength == .channel { channels[message.channel].append(nil) }
        return messages.count - 1
    }

    /// A client sends a fired or an acknowledged message, on a connection that has an order.
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
        // A long text is made of long parts.
        let part = String(repeating: unit, count: Swift.min(count, 1000))
        return first + String(repeating: part, count: count / 1000)
            + String(part.prefix((count < 1000 ? count : count % 1000) * unit.utf8.count))
    }

    /// The number in a text; nil if no client published it like this.
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

    // What is seen

    func topic(_ epoch: UInt64) -> TopicLedger? { topics[epoch] }

    func topic(_ epoch: UInt64, named name: String) -> TopicLedger {
        if let topic = topics[epoch] { return topic }
        referee.expect(epoch != 0, "the topic '\(name)' has the epoch 0")
        let topic = TopicLedger(name: name, epoch: epoch)
        topics[epoch] = topic
        return topic
    }

    /// A topic that came and went between two looks; nil if nobody had that name deleted.
    func unseen(_ epoch: UInt64, _ name: String) -> TopicLedger? {
        guard deleted.contains(name) else { return nil }
        let topic = topic(epoch, named: name)
        topic.isGone = true
        return topic
    }

    /// A payload was seen at a place: in a log, or delivered. Returns its number.
    @discardableResult
    func saw(_ payload: some Collection<UInt8>, at sequence: UInt64, of topic: TopicLedger) -> Int? {
        guard let number = number(in: payload) else {
            referee.fail("message \(sequence) of '\(topic.name)' is none that a client published")
            return nil
        }
        place(number, at: sequence, of: topic)
        return number
    }

    /// The number of a delivered payload, wherever it stands.
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
            message.topic == topic.name, "message m\(number) of '\(message.topic)' stands in '\(topic.name)'")
        referee.expect(
            message.place == nil, "message m\(number) stands twice: at \(place), and at \(message.place ?? place)")
        referee.expect(
            topic.numbers[sequence] == nil,
            "two messages stand at \(sequence) of '\(topic.name)': m\(number) and m\(topic.numbers[sequence] ?? 0)")
        referee.expect(
            !message.isRefused,
            "message m\(number) (\(message.strength)) was refused or withdrawn, and stands at \(place) all the same")
        referee.expect(
            sequence < topic.end || topic.isGone,
            "message m\(number) was seen at \(sequence) ahead of the end of '\(topic.name)'")
        messages[number].place = place
        topic.numbers[sequence] = number
        if message.strength == .channel { order(message, number, place) }
        expectInOrder(number, place)
    }

    /// What waits for room finds it in the order in which it came, and what comes later is behind it.
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
                "message m\(second) stands at \(other.sequence), ahead of m\(first), which was sent before it")
        }
    }

    /// What a channel sent stands in the order in which it was sent.
    private func order(_ message: Published, _ number: Int, _ place: Place) {
        let all = channels[message.channel]
        if message.index > 0, let before = all[message.index - 1] {
            referee.expect(
                before.epoch == place.epoch && before.sequence < place.sequence,
                "message m\(number) of a channel stands at \(place.sequence), before the one that was sent before it")
        }
        if message.index + 1 < all.count, let behind = all[message.index + 1] {
            referee.expect(
                behind.epoch == place.epoch && behind.sequence > place.sequence,
                "message m\(number) of a channel stands at \(place.sequence), behind the one that was sent after it")
        }
        channels[message.channel][message.index] = place
    }

    /// Nobody publishes the message any more, and it is not parked: if it has no place, it gets none.
    func withdrawn(_ number: Int) {
        if messages[number].place == nil { messages[number].isRefused = true }
    }

    /// A fire publish finds its place at once, or never.
    func withdrawFired() {
        for number in messages.indices where messages[number].strength == .fire { withdrawn(number) }
    }

    func refused(_ number: Int, _ why: String) {
        let message = messages[number]
        referee.expect(
            message.place == nil,
            "message m\(number) (\(message.strength)) was refused, yet it is in its topic: \(why)")
        messages[number].isRefused = true
    }

    /// The broker said that a message is in its topic, at this sequence.
    func acknowledged(_ number: Int, at sequence: UInt64) {
        let message = messages[number]
        guard let place = message.place else {
            return referee.expect(
                mayStand(number, at: sequence),
                "m\(number) was acknowledged as \(sequence) of '\(message.topic)', which is not in the topic")
        }
        if let topic = topics[place.epoch], !topic.isGone {
            referee.expect(
                sequence < topic.committed, "m\(number) was acknowledged as \(sequence), which is not committed")
        }
        referee.expect(
            place.sequence == sequence, "m\(number) was acknowledged as \(sequence) and stands at \(place.sequence)")
    }

    /// Whether a message has its place: it was seen there, or went in the moment in which it came, and was not seen.
    func mayStand(_ number: Int, at sequence: UInt64? = nil) -> Bool {
        let message = messages[number]
        if message.place != nil || deleted.contains(message.topic) { return true }
        return topics.values.contains {
            guard $0.name == message.topic else { return false }
            guard let sequence else { return $0.isGone || $0.numbers.count < $0.end - 1 }
            return (sequence < $0.end || $0.isGone) && $0.numbers[sequence] == nil
        }
    }
}
