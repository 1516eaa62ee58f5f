// ClusterJournal: which message is where in a cluster's topics, as all nodes report it. They must agree.

import Core
import JetStreamModel

/// A message that a node publishes.
struct ClusterMessage: Hashable {
    let topic: String
    /// Empty for a message without a number.
    let publisher: String
    let number: UInt64?
    let text: String
}

final class ClusterJournal {
    let referee = Referee()
    private let cluster: ModelCluster
    /// The messages of each epoch by sequence, and where each text is.
    private var messages: [UInt64: [UInt64: String]] = [:]
    private var places: [UInt64: [String: UInt64]] = [:]
    private var ends: [UInt64: SharedEnd] = [:]
    /// Texts without a number that were refused for certain, and in which epochs texts were seen.
    private var refusedTexts: Set<String> = []
    private var epochOfText: [String: UInt64] = [:]
    /// Epochs of streams that have lost acknowledged messages. Until nodes notice, they may disagree.
    private var damaged: Set<UInt64> = []
    /// Topics that have lost messages, or were perhaps deleted. They may begin again.
    private(set) var interrupted: Set<String> = []
    /// What clients had acknowledged: the messages by epoch and sequence.
    private var acknowledged: [UInt64: [UInt64: String]] = [:]
    /// Whether streams remove messages because of their limits.
    private var removesMessages = false
    private(set) var published = 0
    private(set) var received = 0

    init(_ cluster: ModelCluster) { self.cluster = cluster }

    func expectRemovals() { removesMessages = true }

    func sent(_ message: ClusterMessage) { published += 1 }

    /// Whether some node knows that a numbered message is in the topic's present stream.
    func has(_ message: ClusterMessage, epoch: UInt64) -> Bool { places[epoch]?[message.text] != nil }

    func damage(_ epoch: UInt64, of topic: String) {
        interrupted.insert(topic)
        damaged.insert(epoch)
        messages[epoch] = nil
        places[epoch] = nil
    }

    func isDamaged(_ epoch: UInt64) -> Bool { damaged.contains(epoch) }

    func received(_ text: String, at sequence: UInt64, of epoch: UInt64) {
        received += 1
        if damaged.contains(epoch) { return }
        let known = messages[epoch]?[sequence]
        referee.expect(
            known == nil || known == text, "\(sequence) of \(epoch) is \(text) for one node, and \(known ?? "") before")
        let place = places[epoch]?[text]
        // A topic forgets a publisher with its last message, and takes that again.
        referee.expect(
            removesMessages || place == nil || place == sequence,
            "\(text) is at \(sequence) and at \(place ?? 0) of \(epoch)")
        if !text.hasPrefix("p") {
            let other = epochOfText[text]
            referee.expect(other == nil || other == epoch, "\(text) is in \(epoch) and in \(other ?? 0)")
            epochOfText[text] = epoch
            referee.expect(!refusedTexts.contains(text), "\(text) was refused and is at \(sequence) of \(epoch)")
        }
        messages[epoch, default: [:]][sequence] = text
        places[epoch, default: [:]][text] = sequence
    }

    /// Sequences were passed over without a message: they must be control messages, except for those that were
    /// reported as lost.
    func skipped(_ range: Range<UInt64>, of epoch: UInt64, lost: Int = 0) {
        if range.isEmpty && lost == 0 || damaged.contains(epoch) { return }
        let stream = cluster.stream(named: "FB_\(epoch)")
        let messages = range.filter { self.messages[epoch]?[$0] != nil || stream?[$0].map(isMessage) ?? false }
        referee.expect(
            messages.count <= lost && lost <= range.count,
            "\(messages) of \(epoch) were passed over among \(range), and \(lost) reported as lost")
    }

    /// A subscriber to all of a topic received nothing before `sequence`.
    func skippedAtStart(before sequence: UInt64, of epoch: UInt64, lost: Int) {
        if !removesMessages { skipped(1..<sequence, of: epoch, lost: lost) }
    }

    private func isMessage(_ stored: JetStreamModel.StoredMessage) -> Bool {
        !String(decoding: stored.headers ?? [], as: UTF8.self).contains("Forebay-Control")
    }

    /// The last sequence of a stream that has a message for subscribers. After the topic's end, there may be messages
    /// that were refused.
    func lastMessage(of stream: StreamTruth) -> UInt64? {
        let end = stream.configuration.metadata["forebay-end-sequence"].flatMap { UInt64($0) } ?? .max
        return stream.messages.last { $0.sequence < end && isMessage($0) }?.sequence
    }

    /// A node cannot read some messages: the stream must not have them.
    func lost(_ range: Range<UInt64>, of epoch: UInt64) {
        guard !damaged.contains(epoch), let stream = cluster.stream(named: "FB_\(epoch)") else { return }
        let kept = stream.messages.map(\.sequence).filter(range.contains)
        referee.expect(kept.isEmpty, "\(kept) of \(epoch) were reported as lost, but are in the stream")
    }

    func accepted(_ message: ClusterMessage, at sequence: UInt64, of epoch: UInt64) {
        if damaged.contains(epoch) { return }
        referee.expect(places[epoch]?[message.text] == sequence, "\(message.text) was accepted where it is not")
    }

    /// A client received the acknowledgement of its message at this sequence, in the epoch that the topic has or had.
    func acknowledged(_ message: ClusterMessage, at sequence: UInt64) {
        for name in cluster.streamNames {
            guard let epoch = UInt64(name.dropFirst(3)), let stored = cluster.stream(named: name)?[sequence],
                String(decoding: stored.payload, as: UTF8.self) == message.text
            else { continue }
            acknowledged[epoch, default: [:]][sequence] = message.text
            return
        }
        referee.expect(
            removesMessages || interrupted.contains(message.topic),
            "\(message.text) was acknowledged at \(sequence), where it is not")
    }

    /// A client has asked for the deletion of a topic.
    func deletes(_ topic: String) { interrupted.insert(topic) }

    /// A subscriber goes on in another epoch.
    func began(_ topic: String) {
        referee.expect(interrupted.contains(topic), "'\(topic)' has begun again, but nothing was lost")
    }

    func duplicate(_ message: ClusterMessage, last: UInt64) {
        referee.expect(message.number != nil, "\(message.text) has no number and was taken for a duplicate")
    }

    func refused(_ message: ClusterMessage, _ why: String) {
        guard message.number == nil, !why.contains("outcome unknown") else { return }
        // A message that was lost may be refused.
        if let epoch = epochOfText[message.text], damaged.contains(epoch) { return }
        refusedTexts.insert(message.text)
        referee.expect(epochOfText[message.text] == nil, "\(message.text) is in its topic and was refused: \(why)")
    }

    func ended(_ topic: String, _ epoch: UInt64, _ end: SharedEnd) {
        let known = ends[epoch]
        referee.expect(known == nil || known == end, "'\(topic)' ends as \(end) for one node")
        ends[epoch] = end
    }

    /// Checks everything that is known against the streams.
    func check() {
        for (epoch, messages) in messages {
            guard let stream = cluster.stream(named: "FB_\(epoch)") else { continue }
            // Subscribers may have received only some.
            var all = messages
            for stored in stream.messages {
                let headers = String(decoding: stored.headers ?? [], as: UTF8.self)
                // After the topic's end, there may be messages that were refused.
                if ["completed", "failed", "deleted"].contains(where: { headers.contains("Forebay-Control: \($0)") }) {
                    break
                }
                let text = String(decoding: stored.payload, as: UTF8.self)
                let known = messages[stored.sequence]
                referee.expect(known == nil || known == text, "\(stored.sequence) of \(epoch) is \(text)")
                if isMessage(stored) { all[stored.sequence] = text }
            }
            checkNumbers(epoch, all)
        }
        for (epoch, messages) in acknowledged where !damaged.contains(epoch) {
            guard let stream = cluster.stream(named: "FB_\(epoch)") else { continue }
            let first = stream.messages.first?.sequence ?? .max
            for (sequence, text) in messages where !removesMessages || sequence >= first {
                let stored = stream[sequence].map { String(decoding: $0.payload, as: UTF8.self) }
                referee.expect(stored == text, "\(text) was acknowledged at \(sequence) of \(epoch), and is gone")
            }
        }
    }

    private func checkNumbers(_ epoch: UInt64, _ messages: [UInt64: String]) {
        // What nobody received may be gone.
        if removesMessages { return }
        var last: [String: UInt64] = [:]
        for (sequence, text) in messages.sorted(by: { $0.key < $1.key }) where text.hasPrefix("p") {
            let parts = text.split(separator: ".")
            guard parts.count == 3, let number = UInt64(parts[2]) else { continue }
            let publisher = "\(parts[0]).\(parts[1])"
            let expected = (last[publisher] ?? number - 1) + 1
            referee.expect(
                number == expected, "\(text) is at \(sequence) of \(epoch), after number \(expected - 1)")
            last[publisher] = number
        }
    }
}
