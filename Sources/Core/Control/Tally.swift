// Tally: counts by reason, as plain numbers in a row. Nothing is looked up, and nothing allocated, to count.

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
