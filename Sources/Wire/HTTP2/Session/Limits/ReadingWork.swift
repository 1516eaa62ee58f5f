// ReadingWork: the cost of reading that no other event accounts for – header sections, by their expanded size, and
// frames without events. The cost is reported to the owner in units, so that the owner can serve other connections in
// between.

/// Measured in bytes of an expanded header section.
struct ReadingWork {
    /// One of the owner's units: this many bytes take about a microsecond, short fields somewhat longer.
    private static let unit = 512
    /// Reported from this amount on. A typical request costs a tenth of this.
    private static let due = 8 << 10

    /// A frame without an event.
    static let frame = 128
    /// A byte of a compressed header section. It may expand to a field, which is decoded even if it is not wanted.
    static let compressed = 4
    /// A stream visited because windows have changed.
    static let stream = 8

    private var count = 0

    /// Whether the work must be reported to the owner.
    var isDue: Bool { count >= Self.due }

    mutating func add(_ bytes: Int) { count += bytes }

    /// The units not reported yet.
    mutating func take() -> Int {
        defer { count %= Self.unit }
        return count / Self.unit
    }
}
