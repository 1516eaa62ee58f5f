// FailureTally: limits log lines for failures that any client can cause, to one per second.

import Core
import Glibc

/// One kind of failure. Belongs to one thread.
struct FailureTally {
    private static let interval: UInt64 = 1_000_000_000
    private let level: LogRecord.Level
    private let message: String
    /// Maximum number of subjects that are counted separately between two lines: users, or topics if no user is named.
    private static let subjects = 64
    private static let subjectKeys = ["user", "topic"]
    private var unsent = 0
    /// Count, latest number and latest fields by subject. Failures without a subject are counted under the empty
    /// string.
    private var ofSubject: [String: (count: Int, number: Int, fields: [LogField])] = [:]
    /// The sum of the `messages` fields.
    private var messages = 0
    private var lastReport: UInt64?

    init(_ level: LogRecord.Level, _ message: String) {
        self.level = level
        self.message = message
    }

    /// When the next line is due.
    var deadline: UInt64? { unsent == 0 ? nil : (lastReport ?? 0) + FailureTally.interval }

    /// Counts a failure. A line for several failures has the fields of the latest one of the most frequent user or
    /// topic, and the sum of all `messages`.
    mutating func count(_ cause: String) { count([("cause", cause)]) }

    mutating func count(_ fields: [LogField]) {
        unsent += 1
        messages += fields.first { $0.key == "messages" }?.value as? Int ?? 0
        let subject = FailureTally.subject(of: fields)?.value as? String ?? ""
        let before = ofSubject[subject]?.count ?? 0
        if before > 0 || ofSubject.count < FailureTally.subjects { ofSubject[subject] = (before + 1, unsent, fields) }
    }

    private static func subject(of fields: [LogField]) -> LogField? {
        for key in subjectKeys { if let field = fields.first(where: { $0.key == key }) { return field } }
        return nil
    }

    mutating func report(now: UInt64, log: Log) {
        // Another thread may have passed a later time already.
        guard unsent > 0, lastReport.map({ now >= $0 && now - $0 >= FailureTally.interval }) ?? true else { return }
        let most = ofSubject.values.max { ($0.count, $0.number) < ($1.count, $1.number) }
        // If the line also covers other subjects, it states how many failures belong to the one it names.
        var own: [LogField] = []
        if let most, most.count < unsent {
            own = [("same-" + (FailureTally.subject(of: most.fields)?.key ?? "user"), most.count)]
        }
        let fields = (most?.fields ?? []).map { $0.key == "messages" ? ($0.key, messages) : $0 }
        log.write(level, message, [("attempts", unsent)] + own + fields)
        unsent = 0
        messages = 0
        ofSubject.removeAll(keepingCapacity: true)
        lastReport = now
    }
}

/// Frequent records of the engine, from any thread: one line per second and kind. `attempts` is the number of records
/// that the line stands for; the rest is as in `FailureTally`.
final class FrequentRecords: @unchecked Sendable {
    /// Kinds of records that are tallied; records of further kinds are written directly.
    static let kinds = 8

    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var tallies: [(message: String, tally: FailureTally)] = []

    init() { pthread_mutex_init(lock, nil) }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    func write(_ record: LogRecord, now: UInt64, log: Log) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        var place = tallies.firstIndex { $0.message == record.message }
        if place == nil, tallies.count < FrequentRecords.kinds {
            place = tallies.count
            tallies.append((record.message, FailureTally(record.level, record.message)))
        }
        guard let place else { return log.write(record) }
        tallies[place].tally.count(record.fields)
        tallies[place].tally.report(now: now, log: log)
    }

    /// Writes what has waited for a second. Must be called periodically.
    func report(now: UInt64, log: Log) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        for place in tallies.indices { tallies[place].tally.report(now: now, log: log) }
    }
}
