// FailureTally: failures that anybody may cause as often as he likes, told once a second at most.

import Core
import Glibc

/// One kind of failure. Belongs to one thread.
struct FailureTally {
    private static let interval: UInt64 = 1_000_000_000
    private let level: LogRecord.Level
    private let message: String
    /// Users, or topics where no user is named, that are counted separately between two lines, at most.
    private static let subjects = 64
    private static let subjectKeys = ["user", "topic"]
    private var untold = 0
    /// Those of each user or topic, and what the last of them was; those that name none are one more.
    private var ofSubject: [String: (count: Int, number: Int, fields: [LogField])] = [:]
    /// The sum of the fields `messages`.
    private var messages = 0
    private var lastTold: UInt64?

    init(_ level: LogRecord.Level, _ message: String) {
        self.level = level
        self.message = message
    }

    /// When the next line is due.
    var deadline: UInt64? { untold == 0 ? nil : (lastTold ?? 0) + FailureTally.interval }

    /// A line that stands for several has the fields of the last one of the user or topic with the most, and the number
    /// of `messages` of all.
    mutating func count(_ cause: String) { count([("cause", cause)]) }

    mutating func count(_ fields: [LogField]) {
        untold += 1
        messages += fields.first { $0.key == "messages" }?.value as? Int ?? 0
        let subject = FailureTally.subject(of: fields)?.value as? String ?? ""
        let before = ofSubject[subject]?.count ?? 0
        if before > 0 || ofSubject.count < FailureTally.subjects { ofSubject[subject] = (before + 1, untold, fields) }
    }

    private static func subject(of fields: [LogField]) -> LogField? {
        for key in subjectKeys { if let field = fields.first(where: { $0.key == key }) { return field } }
        return nil
    }

    mutating func tell(now: UInt64, log: Log) {
        // Another thread may have been told of a later time.
        guard untold > 0, lastTold.map({ now >= $0 && now - $0 >= FailureTally.interval }) ?? true else { return }
        let most = ofSubject.values.max { ($0.count, $0.number) < ($1.count, $1.number) }
        // With others' among them the line says how many are of the one that it names.
        var own: [LogField] = []
        if let most, most.count < untold {
            own = [("same-" + (FailureTally.subject(of: most.fields)?.key ?? "user"), most.count)]
        }
        let fields = (most?.fields ?? []).map { $0.key == "messages" ? ($0.key, messages) : $0 }
        log.write(level, message, [("attempts", untold)] + own + fields)
        untold = 0
        messages = 0
        ofSubject.removeAll(keepingCapacity: true)
        lastTold = now
    }
}

/// Records of the engine's that are frequent, from any thread: one line a second, in which `attempts` says for how many
/// it stands, and the rest is as `FailureTally` has it.
final class FrequentRecords: @unchecked Sendable {
    /// Kinds of records that are told apart; what is more than these is written as it comes.
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
        tallies[place].tally.tell(now: now, log: log)
    }

    /// Writes what has waited for a second. To be called now and then.
    func tell(now: UInt64, log: Log) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        for place in tallies.indices { tallies[place].tally.tell(now: now, log: log) }
    }
}
