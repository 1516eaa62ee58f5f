// Tally: counts by reason, as plain numbers in a row. Nothing is looked up, and nothing allocated, to count.

import ForebayWire
import Replay

/// What is counted by: the cases of an enum, each with a place of its own and a name for people.
public protocol TallyKey: CaseIterable, Sendable {
    /// From 0 on, below `Tally.capacity`.
    var place: Int { get }
    /// As metrics tell it: lower case, with hyphens.
    var name: String { get }
}

extension TallyKey where Self: RawRepresentable, RawValue == Int {
    public var place: Int { rawValue }
}

/// How often each came, since the shard began.
public struct Tally<Key: TallyKey>: Sendable {
    /// Keys that there may be.
    public static var capacity: Int { 48 }
    private var counts = InlineArray<48, UInt64>(repeating: 0)

    public init() {}

    public subscript(key: Key) -> UInt64 {
        get { counts[key.place] }
        set { counts[key.place] = newValue }
    }

    /// Of all of them together.
    public var total: UInt64 { Key.allCases.reduce(0) { $0 &+ self[$1] } }

    mutating func add(_ other: Tally) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }
}

/// Messages that subscriptions lost, by their policy: as small as that can be, as it goes from shard to shard with
/// every change of a view.
public struct DropCounts: Sendable, Equatable {
    private var counts = InlineArray<6, UInt64>(repeating: 0)

    public subscript(policy: Overflow) -> UInt64 { counts[policy.place] }

    public var total: UInt64 {
        var sum: UInt64 = 0
        for index in counts.indices { sum &+= counts[index] }
        return sum
    }

    mutating func add(_ count: UInt64, under policy: Overflow) { counts[policy.place] &+= count }

    mutating func add(_ other: DropCounts) {
        for place in counts.indices { counts[place] &+= other.counts[place] }
    }

    public static func == (a: DropCounts, b: DropCounts) -> Bool {
        // With every report of a view: nothing to loop over.
        return a.counts[0] == b.counts[0] && a.counts[1] == b.counts[1] && a.counts[2] == b.counts[2]
            && a.counts[3] == b.counts[3] && a.counts[4] == b.counts[4] && a.counts[5] == b.counts[5]
    }
}
