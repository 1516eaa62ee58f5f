// Tally: counts by reason in a fixed array. Counting needs no look-up and no allocation.

import ForebayWire
import Replay

/// A set of categories: the cases of an enum, each with an index and a readable name.
public protocol TallyKey: CaseIterable, Sendable {
    /// From 0, less than `Tally.capacity`.
    var place: Int { get }
    /// The name as in metrics: lower case, with hyphens.
    var name: String { get }
}

extension TallyKey where Self: RawRepresentable, RawValue == Int {
    public var place: Int { rawValue }
}

/// Counts by key since the shard started.
public struct Tally<Key: TallyKey>: Sendable {
    /// The maximum number of keys.
    public static var capacity: Int { 48 }
    private var counts = InlineArray<48, UInt64>(repeating: 0)

    public init() {}

    public subscript(key: Key) -> UInt64 {
        get { counts[key.place] }
        set { counts[key.place] = newValue }
    }

    /// The sum of all counts.
    public var total: UInt64 { Key.allCases.reduce(0) { $0 &+ self[$1] } }

    mutating func add(_ other: Tally) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }
}

/// Messages that subscriptions lost, by overflow policy. It is compact because every change of a view sends it to
/// another shard.
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
        // Runs for every report of a view, hence without a loop.
        return a.counts[0] == b.counts[0] && a.counts[1] == b.counts[1] && a.counts[2] == b.counts[2]
            && a.counts[3] == b.counts[3] && a.counts[4] == b.counts[4] && a.counts[5] == b.counts[5]
    }
}
