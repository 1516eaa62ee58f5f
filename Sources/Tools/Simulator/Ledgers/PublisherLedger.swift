// PublisherLedger: compares acknowledged publishes and channels with the places of their messages.

/// Excerpts of the broker's reasons for refusing a message.
let publishRefusals = [
    "' has completed", "' is ending, and its store", "' has failed", "' had no room", "The broker's memory",
    "The message takes", "The channel filled the topic", "waiting for acknowledgements",
]

/// An acknowledged publish.
final class AcknowledgedLedger: StreamLedger {
    private let journal: Journal
    let number: Int
    private var isAnswered = false

    init(_ client: any VirtualClient, _ number: Int, _ journal: Journal, _ referee: Referee) {
        self.journal = journal
        self.number = number
        super.init(client, "acknowledged publish of m\(number)", referee)
    }

    func waits(for topic: String) -> Bool { !isAnswered && journal.messages[number].topic == topic }

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        referee.expect(!isAnswered, "\(name) was answered twice")
        isAnswered = true
        guard let sequence = UInt64(String(decoding: data, as: UTF8.self)), sequence > 0 else {
            return referee.fail("\(name) was answered with '\(String(decoding: data, as: UTF8.self))'")
        }
        journal.acknowledged(number, at: sequence)
        client.learnt(journal.messages[number])
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        guard let error else { return referee.expect(isAnswered, "\(name) was completed without a response") }
        referee.expect(!isAnswered, "\(name) was answered and then refused: \(error)")
        expectError(error, among: journal.refusals)
        // If a request could not be reassembled, its connection ends with everything in progress on it.
        if !StreamLedger.isOfFragments(error) { journal.failed(number, error) }
    }
}

/// A channel.
final class ChannelLedger: StreamLedger {
    private let journal: Journal
    /// The channel's number in the journal.
    let channel: Int
    let topic: String
    let completesTopic: Bool
    private(set) var sent: [Int] = []
    /// Credit that the broker has granted and the client has not used.
    private(set) var credit = 0
    private(set) var wasGranted = false
    var acknowledgementsAsked = 0
    /// Whether the client requested all acknowledgements from the start.
    var asksForAll = false
    private(set) var acknowledgements = 0
    private(set) var accepted = 0
    private(set) var last: UInt64 = 0
    /// Whether the channel was opened before its first message, and so may have credit earlier.
    var isOpenedAlone = false
    /// Whether the broker has accepted the channel's end, which is also the end of its topic.
    var hasEndedTopic = false
    /// Whether the client's half has ended.
    var isComplete = false

    init(
        _ client: any VirtualClient, _ topic: String, completesTopic: Bool, _ journal: Journal, _ referee: Referee
    ) {
        self.journal = journal
        self.topic = topic
        self.completesTopic = completesTopic
        channel = journal.openChannel()
        super.init(client, "channel to '\(topic)'", referee)
    }

    func sends(_ number: Int) {
        if !sent.isEmpty { credit -= 1 }
        sent.append(number)
    }

    /// If the channel ended its topic, checks that the topic has ended, provided that the topic is known.
    func checkTopic() {
        guard hasEndedTopic, let place = sent.lazy.compactMap({ self.journal.messages[$0].place }).first,
            let topic = journal.topic(place.epoch)
        else { return }
        referee.expect(
            topic.isGone || topic.states != ["live"], "\(name) has ended, but its topic has not")
    }

    override func granted(_ n: Int) {
        referee.expect(n > 0, "\(name) was granted a credit of 0")
        referee.expect(end == nil, "\(name) was granted \(n) after its end")
        referee.expect(
            isOpenedAlone || journal.mayStand(sent[0]) || journal.messages[sent[0]].isWithdrawn,
            "\(name) was granted \(n) before its first message was in the topic")
        credit += n
        wasGranted = true
    }

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        acknowledgements += 1
        referee.expect(
            acknowledgements <= acknowledgementsAsked,
            "\(name) was acknowledged \(acknowledgements) times, but requested \(acknowledgementsAsked)")
        let sequence = UInt64(String(decoding: data, as: UTF8.self)) ?? 0
        referee.expect(sequence > last, "\(name) was acknowledged \(sequence) after \(last)")
        last = sequence
        let count = Int(metadata.map { bigEndian($0.suffix(8)) } ?? 0)
        guard count > accepted, count <= sent.count else {
            return referee.fail("\(name) was reported \(count) accepted after \(accepted), but sent \(sent.count)")
        }
        accepted = count
        journal.acknowledged(sent[count - 1], at: sequence)
        client.learnt(journal.messages[sent[count - 1]])
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        // If there is credit for it, the last acknowledgement precedes the end: messages after that were not accepted.
        if asksForAll, !isMistaken, error.map(StreamLedger.isOfFragments) != true {
            for number in sent[accepted...] { journal.failed(number, error ?? "its channel was completed") }
        }
        if let error {
            expectError(error, among: journal.refusals)
        } else {
            hasEndedTopic = completesTopic
            if completesTopic, let place = sent.lazy.compactMap({ self.journal.messages[$0].place }).first {
                journal.promised(place.epoch, isDeleted: false)
            }
            referee.expect(isComplete, "\(name) was completed by the broker before the client completed its half")
            for number in sent {
                referee.expect(journal.mayStand(number), "\(name) was completed, but m\(number) is not in its topic")
            }
        }
    }
}

func bigEndian(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
