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
    private(set) var published = 0
    private(set) var received = 0
    /// Sequences that nodes reported as lost.
    private(set) var reportedLost: [UInt64: Set<UInt64>] = [:]

    init(_ cluster: ModelCluster) { self.cluster = cluster }

    func sent(_ message: ClusterMessage) { published += 1 }

    /// Whether some node knows that a numbered message is in the topic's present stream.
    func has(_ message: ClusterMessage, epoch: UInt64) -> Bool { places[epoch]?[message.text] != nil }

    func damage(_ epoch: UInt64) {
        damaged.insert(epoch)
        messages[epoch] = nil
        places[epoch] = nil
    }

    func received(_ text: String, at sequence: UInt64, of epoch: UInt64) {
        received += 1
        if damaged.contains(epoch) { return }
        let known = messages[epoch]?[sequence]
        referee.expect(
            known == nil || known == text, "\(sequence) of \(epoch) is \(text) for one node, and \(known ?? "") before")
        let place = places[epoch]?[text]
        referee.expect(
            place == nil || place == sequence, "\(text) is at \(sequence) and at \(place ?? 0) of \(epoch)")
        if !text.hasPrefix("p") {
            let other = epochOfText[text]
            referee.expect(other == nil || other == epoch, "\(text) is in \(epoch) and in \(other ?? 0)")
            epochOfText[text] = epoch
            referee.expect(!refusedTexts.contains(text), "\(text) was refused and is at \(sequence) of \(epoch)")
        }
        messages[epoch, default: [:]][sequence] = text
        places[epoch, default: [:]][text] = sequence
    }

    /// A node passed sequences without a message: they must be control messages.
    func skipped(_ range: Range<UInt64>, of epoch: UInt64) {
        for sequence in range where !damaged.contains(epoch) {
            let text = messages[epoch]?[sequence]
            referee.expect(text == nil, "\(sequence) of \(epoch), \(text ?? ""), was passed over")
            guard let message = cluster.stream(named: "FB_\(epoch)")?[sequence] else { continue }
            let isForNodes = String(decoding: message.headers ?? [], as: UTF8.self).contains("Forebay-Control")
            referee.expect(isForNodes, "\(sequence) of \(epoch) was passed over, but is a message")
        }
    }

    func lost(_ range: Range<UInt64>, of epoch: UInt64) { reportedLost[epoch, default: []].formUnion(range) }

    func accepted(_ message: ClusterMessage, at sequence: UInt64, of epoch: UInt64) {
        if damaged.contains(epoch) { return }
        referee.expect(places[epoch]?[message.text] == sequence, "\(message.text) was accepted where it is not")
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
            for stored in stream.messages {
                guard let text = messages[stored.sequence] else { continue }
                referee.expect(
                    text == String(decoding: stored.payload, as: UTF8.self), "\(stored.sequence) of \(epoch) is \(text)"
                )
            }
            checkNumbers(epoch, messages)
        }
    }

    private func checkNumbers(_ epoch: UInt64, _ messages: [UInt64: String]) {
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
