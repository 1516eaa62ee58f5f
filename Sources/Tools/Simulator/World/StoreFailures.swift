// StoreFailures: which commits of a run's store fail.

import Core

struct StoreFailures {
    private let chance: Chance
    private let mayFail: Bool
    /// Whether a write may fail in such a way that nobody knows its outcome. The store then has to be opened again.
    private let mayBreak: Bool
    /// How many more commits find no room.
    private var full = 0
    private(set) var hasFailed = false

    init(_ plan: Plan, _ chance: Chance) {
        self.chance = chance
        mayFail = plan.has(.storeFailures)
        mayBreak = mayFail && plan.has(.crashes)
    }

    /// Why the next commit fails; nil if it does not.
    /// - Parameter isCalm: whether only what has failed before fails.
    mutating func next(isCalm: Bool) -> StoreFailure? {
        if hasFailed { return .unknown }
        guard mayFail, !isCalm else { return nil }
        if full > 0 {
            full -= 1
            return .full
        }
        switch chance.below(40) {
        case 0...1: return .aborted
        case 2: return .full
        case 3:
            full = chance.below(8)
            return .full
        case 4 where mayBreak && chance.isOne(in: 4):
            hasFailed = true
            return .unknown
        default: return nil
        }
    }

    /// Whether trims, ends and deletions are written although the messages were not.
    func keepsMaintenance() -> Bool { chance.below(4) > 0 }

    /// Whether a commit of unknown outcome is on the disk.
    func isWritten() -> Bool { chance.isOne(in: 2) }

    /// Whether stored messages cannot be read.
    func hidesMessages(isCalm: Bool) -> Bool { mayFail && !isCalm && chance.isOne(in: 12) }

    /// The store is opened again.
    mutating func recover() {
        hasFailed = false
        full = 0
    }
}
