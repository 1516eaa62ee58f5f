// Stream: the messages of a stream, its limits, and the ids of recent messages.

final class Stream {
    /// A message that is published, but not committed.
    struct Proposal {
        var message: Publication
        /// Distinguishes it from others, also after a leader change.
        var number: UInt64
    }

    var configuration: StreamConfiguration {
        didSet { prepare() }
    }
    /// When it was created, in nanoseconds since 1970.
    let created: Int64
    private(set) var messages: [StoredMessage] = []
    private(set) var lastSequence: UInt64 = 0
    private(set) var lastTime: Int64?
    /// The sequence and time of each id in the duplicate window.
    private var ids: [String: (sequence: UInt64, time: Int64)] = [:]
    private(set) var lastID = ""
    private(set) var filters: [[String]] = []
    private var transform: SubjectTransform?

    // The cluster

    var proposals: [Proposal] = []
    /// When the latest proposal will be committed.
    var commitTime: UInt64 = 0
    var proposed: UInt64 = 0
    /// Counts the leaders.
    var term: UInt64 = 1
    /// How far the leader's clock is ahead.
    var clockOffset: Int64 = 0
    /// When the stream ceases to be silent, and when it has a leader again.
    var silentUntil: UInt64 = 0
    var leaderlessUntil: UInt64 = 0
    /// Sequences that the replicas have not got which answer direct gets.
    var missing: [ClosedRange<UInt64>] = []

    init(_ configuration: StreamConfiguration, created: Int64) {
        self.configuration = configuration
        self.created = created
        prepare()
    }

    private func prepare() {
        filters = configuration.subjects.map(Subjects.tokens)
        transform = configuration.republish.flatMap { SubjectTransform(from: $0.source, to: $0.destination) }
    }

    var isReplicated: Bool { configuration.replicas > 1 }

    // MARK: Reading

    var firstSequence: UInt64 { messages.first?.sequence ?? (lastSequence == 0 ? 0 : lastSequence + 1) }
    var bytes: Int { messages.reduce(0) { $0 + size($1) } }

    func takes(_ subject: [String]) -> Bool { filters.contains { Subjects.matches($0, subject) } }

    /// Where a message is republished; nil for nowhere.
    func destination(of subject: String) -> String? {
        transform?(Subjects.tokens(subject)).flatMap { Subjects.isValid($0) ? $0 : nil }
    }

    subscript(sequence: UInt64) -> StoredMessage? {
        let index = index(of: sequence)
        return index < messages.count && messages[index].sequence == sequence ? messages[index] : nil
    }

    /// The first message at or after `sequence` whose subject matches.
    func next(from sequence: UInt64, filter: [String]?) -> StoredMessage? {
        messages[index(of: sequence)...].first { Stream.matches($0, filter) }
    }

    func last(_ filter: [String]) -> StoredMessage? { messages.last { Stream.matches($0, filter) } }

    func count(from sequence: UInt64, filter: [String]?) -> Int {
        messages[index(of: sequence)...].count { Stream.matches($0, filter) }
    }

    private static func matches(_ message: StoredMessage, _ filter: [String]?) -> Bool {
        filter.map { Subjects.matches($0, Subjects.tokens(message.subject)) } ?? true
    }

    /// The index of the first message at or after `sequence`.
    private func index(of sequence: UInt64) -> Int {
        var range = 0..<messages.count
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            range = messages[middle].sequence < sequence ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return range.lowerBound
    }

    /// What a message counts toward `max_bytes`.
    func size(_ message: StoredMessage) -> Int {
        let content = message.subject.utf8.count + message.payload.count
        if configuration.isInMemory { return 16 + content + (message.headers?.count ?? 0) }
        return 30 + content + (message.headers.map { $0.count + 4 } ?? 0)
    }

    // MARK: Ids

    /// The sequence of the message with an id, if it is in the duplicate window.
    func sequence(ofID id: String, now: Int64) -> UInt64? {
        guard let known = ids[id], now - known.time < Int64(configuration.duplicateWindow) else { return nil }
        return known.sequence
    }

    private func removeOldIDs(now: Int64) {
        ids = ids.filter { now - $0.value.time < Int64(configuration.duplicateWindow) }
    }

    // MARK: Changing

    /// Appends a message, and removes those beyond the limits. Returns it as stored.
    func append(_ publication: Publication, now: Int64) -> StoredMessage {
        lastSequence += 1
        lastTime = now
        let message = StoredMessage(
            sequence: lastSequence, subject: publication.subject, headers: publication.headers,
            payload: publication.payload, time: now)
        messages.append(message)
        removeOldIDs(now: now)
        lastID = message.id ?? ""
        if !lastID.isEmpty { ids[lastID] = (lastSequence, now) }
        applyLimits(now: now)
        return message
    }

    func applyLimits(now: Int64) {
        let limits = configuration
        var excess = limits.maxMessages >= 0 ? messages.count - limits.maxMessages : 0
        if limits.maxBytes >= 0 {
            var left = bytes
            for (index, message) in messages.enumerated() where left > limits.maxBytes {
                left -= size(message)
                excess = max(excess, index + 1)
            }
        }
        messages.removeFirst(max(0, excess))
        if limits.maxMessagesPerSubject >= 0, let subject = messages.last?.subject {
            let same = messages.filter { $0.subject == subject }
            for message in same.dropLast(limits.maxMessagesPerSubject) { _ = remove(message.sequence) }
        }
        if limits.maxAge > 0 {
            messages.removeFirst(messages.prefix { now - $0.time >= Int64(limits.maxAge) }.count)
        }
    }

    /// When the oldest message expires, in nanoseconds since 1970.
    var expiry: Int64? {
        guard configuration.maxAge > 0, let first = messages.first else { return nil }
        let (sum, isOver) = first.time.addingReportingOverflow(Int64(configuration.maxAge))
        return isOver ? nil : sum
    }

    /// Removes one message. Returns whether it was there.
    func remove(_ sequence: UInt64) -> Bool {
        guard self[sequence] != nil else { return false }
        messages.remove(at: index(of: sequence))
        return true
    }

    func removeAll() { messages = [] }

    /// Loses the messages from `sequence` on as if they had never been stored: their sequences will be used again.
    func lose(from sequence: UInt64) -> [StoredMessage] {
        guard sequence >= 1, sequence <= lastSequence else { return [] }
        let lost = Array(messages[index(of: sequence)...])
        messages.removeLast(lost.count)
        lastSequence = sequence - 1
        ids = ids.filter { $0.value.sequence < sequence }
        lastID = messages.last?.id ?? ""
        return lost
    }
}
