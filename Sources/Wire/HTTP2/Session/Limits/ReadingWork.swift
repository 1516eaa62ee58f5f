// ReadingWork: what reading takes that no other event accounts for – header sections, by what they expand to, and
// frames that tell nothing. The owner is told of it in units, so that it can go on with others in between.

/// It is counted in bytes of an expanded header section.
struct ReadingWork {
    /// So many take about a microsecond, fields of a few bytes somewhat longer: a unit of the owner's.
    private static let unit = 512
    /// It is told from so much on. A usual request is a tenth of that.
    private static let due = 8 << 10

    /// A frame that tells nothing.
    static let frame = 128
    /// A byte of a compressed header section: it may stand for a field, which is decoded even where it is not wanted.
    static let compressed = 4
    /// A stream that is looked at because windows have changed.
    static let stream = 8

    private var count = 0

    /// The owner is to be told.
    var isDue: Bool { count >= Self.due }

    mutating func add(_ bytes: Int) { count += bytes }

    /// The units that were not told yet.
    mutating func take() -> Int {
        defer { count %= Self.unit }
        return count / Self.unit
    }
}
