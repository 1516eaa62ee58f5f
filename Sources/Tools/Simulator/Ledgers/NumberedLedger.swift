// NumberedLedger: single publishes with numbers, which clients repeat at will, on any connection. The journal notices a
// message that is in its topic twice; this ledger, one that is missing or out of order.

import ForebayWire

/// The messages of one publisher in a topic: the one at index 0 has number 1.
final class NumberedPublisher {
    let topic: String
    let id: String
    private(set) var messages: [Int] = []
    /// Messages up to this number are known to be published.
    private(set) var confirmed = 0
    /// Whether the topic no longer knows the publisher, or its first message may have been lost. Later messages have no
    /// place then.
    var isOver = false
    /// Whether the broker does not forget publishers during the run.
    private let isLasting: Bool
    private let journal: Journal
    private let referee: Referee

    init(_ topic: String, _ id: String, isLasting: Bool, _ journal: Journal, _ referee: Referee) {
        self.topic = topic
        self.id = id
        self.isLasting = isLasting
        self.journal = journal
        self.referee = referee
    }

    var refusals: [String] { journal.refusals }

    func add(_ message: Int) { messages.append(message) }

    /// A message was acknowledged: it and all before it are in the topic.
    func acknowledged(_ number: Int, at sequence: UInt64, isDuplicate: Bool) {
        confirmed = Swift.max(confirmed, number)
        if !isDuplicate { journal.acknowledged(messages[number - 1], at: sequence) }
        for earlier in messages[..<number] {
            referee.expect(
                journal.mayStand(earlier),
                "number \(number) of publisher '\(id)' was acknowledged, but m\(earlier) is not in '\(topic)'")
        }
        check()
    }

    /// The broker does not know the publisher. It must, if a durable topic has one of its messages, even after a crash.
    /// - Parameter known: the number that was confirmed when the request was sent.
    func isUnknown(after known: Int) {
        isOver = true
        guard isLasting, known > 0, let place = journal.messages[messages[known - 1]].place,
            let topic = journal.topic(place.epoch), topic.storage.kind == .durable, !topic.isGone
        else { return }
        referee.expect(
            journal.deleted.contains(topic.name),
            "publisher '\(id)' is unknown, although its number \(known) is in '\(topic.name)'")
    }

    /// Messages are in the topic in the order of their numbers, without gaps.
    func check() {
        for (first, second) in zip(messages, messages.dropFirst()) {
            guard let place = journal.messages[second].place, !journal.messages[second].isLost else { continue }
            guard let before = journal.messages[first].place else {
                referee.expect(
                    journal.mayStand(first), "m\(second) of publisher '\(id)' is at \(place), but m\(first) is missing")
                continue
            }
            referee.expect(
                before.epoch == place.epoch && before.sequence < place.sequence,
                "m\(second) of publisher '\(id)' is at \(place), but m\(first) is at \(before)")
        }
    }
}

/// One attempt to publish a numbered message.
final class NumberedLedger: StreamLedger {
    private let publisher: NumberedPublisher
    /// The number of the message in the journal.
    let message: Int
    private let number: Int
    /// The publisher's confirmed number when the request was sent.
    private let known: Int
    private var isAnswered = false

    init(_ client: any VirtualClient, _ publisher: NumberedPublisher, _ number: Int, _ referee: Referee) {
        self.publisher = publisher
        self.number = number
        known = publisher.confirmed
        message = publisher.messages[number - 1]
        super.init(client, "publish of number \(number) of '\(publisher.id)', m\(message)", referee)
    }

    var route: String { "\(publisher.topic)?publisher=\(publisher.id)&number=\(number)" }

    func waits(for topic: String) -> Bool { !isAnswered && publisher.topic == topic }

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        referee.expect(!isAnswered, "\(name) was answered twice")
        isAnswered = true
        guard let sequence = UInt64(String(decoding: data, as: UTF8.self)), sequence > 0 else {
            return referee.fail("\(name) was answered with '\(String(decoding: data, as: UTF8.self))'")
        }
        publisher.acknowledged(number, at: sequence, isDuplicate: metadata != nil)
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        guard let error else { return referee.expect(isAnswered, "\(name) was completed without a response") }
        referee.expect(!isAnswered, "\(name) was answered and then refused: \(error)")
        let word = ErrorWord(beginning: error)
        if word == .publisher, error.contains("unknown, start at 1") { publisher.isUnknown(after: known) }
        if number == 1 { publisher.isOver = true }
        if word == .publisher {
            referee.expect(number > 1, "\(name) was refused although it is the first: \(error)")
        } else {
            expectError(error, among: publisher.refusals + ["The topic knows"])
        }
    }
}
