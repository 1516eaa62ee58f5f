// FailureTally: failures that anybody may cause as often as he likes, told once a second at most.

import Core
import Glibc

/// One kind of failure. Belongs to one thread.
struct FailureTally {
    private static let interval: UInt64 = 1_000_000_000
    private let level: LogRecord.Level
    private let message: String
    /// Users who are counted by themselves between two lines, at most.
    private static let users = 64
    private var untold = 0
    /// Those of each user, and what the last of them was; those that name none are one more.
    private var ofUser: [String: (count: Int, number: Int, fields: [LogField])] = [:]
    private var lastTold: UInt64?

    init(_ level: LogRecord.Level, _ message: String) {
        self.level = level
        self.message = message
    }

    /// When the next line is due.
    var deadline: UInt64? { untold == 0 ? nil : (lastTold ?? 0) + FailureTally.interval }

    /// Of several between two lines the cause of the last one is told, of those of the user with the most.
    mutating func count(_ cause: String) { count([("cause", cause)]) }

    mutating func count(_ fields: [LogField]) {
        untold += 1
        let user = fields.first { $0.key == "user" }?.value as? String ?? ""
        let before = ofUser[user]?.count ?? 0
        if before > 0 || ofUser.count < FailureTally.users { ofUser[user] = (before + 1, untold, fields) }
    }

    mutating func tell(now: UInt64, log: Log) {
        // Another thread may have been told of a later time.
        guard untold > 0, lastTold.map({ now >= $0 && now - $0 >= FailureTally.interval }) ?? true else { return }
        let most = ofUser.values.max { ($0.count, $0.number) < ($1.count, $1.number) }
        // With others' among them the line says how many are of the one that it names.
        let own: [LogField] = most.map { $0.count < untold ? [("same-user", $0.count)] : [] } ?? []
        log.write(level, message, [("attempts", untold)] + own + (most?.fields ?? []))
        untold = 0
        ofUser.removeAll(keepingCapacity: true)
        lastTold = now
    }
}

/// Records of the engine's that are frequent, from any thread: one line a second, in which `attempts` says for how many
/// it stands, and the rest is the last one's of the user with the most.
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
