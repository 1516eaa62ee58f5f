// EndCheck: whether a subscriber receives the end that it should, and whether the end reports all losses.

struct EndCheck {
    private let ledger: SubscriberLedger
    private let error: String?
    /// How many messages were lost since the last delivery, according to the end.
    private let reported: UInt64
    private let isSpent: Bool

    init(_ ledger: SubscriberLedger, _ error: String?, lost: UInt64, isSpent: Bool) {
        self.ledger = ledger
        self.error = error
        reported = lost
        self.isSpent = isSpent
    }

    private var name: String { ledger.name }
    private func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) {
        ledger.referee.expect(holds, sentence())
    }

    /// - Parameters:
    ///   - owed: the number of messages that were handed over and have not arrived.
    ///   - restFirst: how many messages handed over at the moment of the end have arrived.
    func run(owed: Int, restFirst: Int) {
        expect(owed == 0, "\(name) was ended before \(owed) messages that had been handed to it")
        if ledger.leaving == nil, ledger.seen?.hasJoined == true {
            ledger.referee.fail("\(name) was ended, but still exists")
        }
        let kind = kind()
        if kind == "blocked" { return checkLosses() }
        if kind == "spent" { return checkSpent() }
        if case .ended(let rest, let isExact)? = ledger.leaving, isExact, kind != "refused" {
            expect(
                restFirst == rest.count,
                "\(name) was ended with \(rest.dropFirst(restFirst)) undelivered although it had credit for them")
        }
        if kind == "completed" || kind == "failed" { checkTail() }
    }

    /// Which kind of end this is; it must be one that is allowed.
    private func kind() -> String {
        let request = ledger.request
        let topic = ledger.journal.topic(ledger.epoch)
        if isSpent { return "spent" }
        guard let error else {
            expect(topic?.states.contains("completed") ?? true, "\(name) was completed, but its topic was not")
            ledger.journal.promised(ledger.epoch, isDeleted: false)
            return "completed"
        }
        if error.hasPrefix("topic failed: ") {
            ledger.journal.promised(ledger.epoch, isDeleted: error.hasPrefix("topic failed: deleted"))
            expect(topic?.states.contains("failed") ?? true, "\(name) was notified that its topic had failed: \(error)")
            return "failed"
        }
        if error.hasPrefix("overflow: blocked too long") {
            expect(request.policy == "block", "\(name) was ended by the rule for block: \(error)")
            return "blocked"
        }
        if error.hasPrefix("overflow: ") {
            expect(request.policy == "fail", "\(name) was ended by the rule for fail: \(error)")
            return "overflow"
        }
        if error.hasPrefix("gap: ") {
            var mayFail = request.gapFails
            if case .from = request.start { mayFail = mayFail || !request.hasMeta }
            expect(mayFail && ledger.received == 0, "\(name) was refused for a gap: \(error)")
            return "refused"
        }
        ledger.expectError(error, among: [])
        return "refused"
    }

    /// Checks that everything after the last delivery is reported as lost.
    private func checkTail() {
        guard ledger.request.hasMeta, let last = ledger.last, let topic = ledger.journal.topic(last.epoch) else {
            return
        }
        if topic.isGone { return }
        expect(
            last.sequence + reported + 1 == topic.end,
            "\(name) was ended after \(last.sequence) with \(reported) reported lost; the topic's next was \(topic.end)"
        )
    }

    private func checkLosses() {
        guard case .ended(let rest, _)? = ledger.leaving, let cursor = ledger.cursor else { return }
        // Messages that arrived at the same moment may be among those lost.
        let least = UInt64(cursor.unreportedCount + cursor.waiting.count)
        expect(
            reported >= least && reported <= UInt64(cursor.unreportedCount + rest.count),
            "\(name) was reported \(reported) lost, but \(least) were waiting")
    }

    /// Checks that the subscriber received everything that it requested, and could request no more.
    private func checkSpent() {
        expect(
            ledger.isHalfClosed && !ledger.isUnbounded && ledger.received == ledger.asked,
            "\(name) was ended as if all requested messages had been delivered: \(ledger.received) of \(ledger.asked)")
        guard let last = ledger.last, let topic = ledger.journal.topic(last.epoch), !topic.isGone else { return }
        expect(
            last.sequence + reported < topic.end,
            "\(name) was ended after \(last.sequence) with \(reported) reported lost; the topic's next was \(topic.end)"
        )
    }

    /// The number of lost messages that a text reports.
    static func lost(_ error: String) -> UInt64 {
        guard let open = error.lastIndex(of: "(") else { return 0 }
        return UInt64(error[error.index(after: open)...].prefix { $0.isNumber }) ?? 0
    }
}

extension SubscriberLedger {
    /// Whether the losses that an error's text reports agree with all that the end reports. A pattern's error is that
    /// of one topic.
    func agrees(_ error: String, lost: UInt64) -> Bool {
        endsWithTopic ? EndCheck.lost(error) == lost : EndCheck.lost(error) <= lost
    }
}

/// What `meta=on` reports about a message.
struct MessagePosition {
    let epoch: UInt64
    let sequence: UInt64
    let dropped: UInt64
    /// The publisher's metadata. Nil if the metadata is not included.
    let carried: [UInt8]?
    /// The topic's name, in a subscription to a pattern.
    let topic: String?

    init(epoch: UInt64, sequence: UInt64, dropped: UInt64, carried: [UInt8]?, topic: String? = nil) {
        self.epoch = epoch
        self.sequence = sequence
        self.dropped = dropped
        self.carried = carried
        self.topic = topic
    }

    /// - Parameter namesTopic: whether another entry names the topic.
    init?(_ metadata: [UInt8]?, namesTopic: Bool = false) {
        let mime = Array("application/vnd.forebay.message".utf8)
        let entry = 1 + mime.count + 3 + 32
        guard let metadata, metadata.count >= entry, metadata[0] == UInt8(mime.count - 1),
            Array(metadata[1...mime.count]) == mime, Array(metadata[(mime.count + 1)...(mime.count + 3)]) == [0, 0, 32]
        else { return nil }
        func figure(_ index: Int) -> UInt64 { bigEndian(metadata[(entry - 32 + 8 * index)...].prefix(8)) }
        epoch = figure(0)
        sequence = figure(1)
        dropped = figure(3)
        guard namesTopic else {
            carried = Array(metadata[entry...])
            topic = nil
            return
        }
        guard let end = MessagePosition.topicEnd(metadata, from: entry) else { return nil }
        topic = String(decoding: metadata[(entry + MessagePosition.topicHead)..<end], as: UTF8.self)
        carried = Array(metadata[end...])
    }
}

extension MessagePosition {
    private static let topicMime = Array("application/vnd.forebay.topic".utf8)
    /// Bytes before the name in an entry with a topic's name.
    private static let topicHead = 1 + topicMime.count + 3

    /// Where an entry with a topic's name ends; nil if there is none at this place.
    private static func topicEnd(_ metadata: [UInt8], from start: Int) -> Int? {
        let name = start + topicHead
        guard metadata.count > name, metadata[start] == UInt8(topicMime.count - 1),
            Array(metadata[(start + 1)...].prefix(topicMime.count)) == topicMime, metadata[name - 3] == 0
        else { return nil }
        let end = name + Int(metadata[name - 2]) << 8 + Int(metadata[name - 1])
        return end <= metadata.count ? end : nil
    }
}

/// Metadata of some messages: an entry of the well-known MIME type 0x7A (content types) with the message's number.
enum ContentType {
    static func text(_ number: Int) -> String { "t/\(number)" }

    static func entry(_ number: Int) -> [UInt8] { entry(text(number)) }

    static func entry(_ type: String) -> [UInt8] {
        let text = Array(type.utf8)
        return [0xFA, 0, 0, UInt8(text.count + 1), UInt8(text.count - 1)] + text
    }
}
