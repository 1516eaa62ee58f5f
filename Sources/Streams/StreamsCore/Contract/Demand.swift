// Demand: how many values a subscriber wants. It only ever adds up.

extension Subscribers {
    /// A number of values that are wanted: none, some, or no limit.
    @frozen public struct Demand: Sendable {
        /// One more than `Int.max` stands for no limit, so that the order of figures is that of demands.
        @usableFromInline let figure: UInt
        @usableFromInline static let noLimit = UInt(Int.max) + 1

        @usableFromInline init(figure: UInt) { self.figure = figure }

        /// As many as there are.
        @inlinable public static var unlimited: Demand { Demand(figure: noLimit) }
        /// No value. Asking for it has no effect.
        @inlinable public static var none: Demand { Demand(figure: 0) }
        /// - Parameter value: at least 0; a negative one traps.
        @inlinable public static func max(_ value: Int) -> Demand {
            precondition(value >= 0, "A demand cannot be negative.")
            return Demand(figure: UInt(value))
        }

        /// The figure; nil if there is no limit.
        @inlinable public var max: Int? { figure == Demand.noLimit ? nil : Int(figure) }

        /// The figure, with `Int.max` for no limit.
        @usableFromInline var clamped: Int { max ?? .max }
    }
}

extension Subscribers.Demand: Hashable, Comparable {
    @inlinable public static func < (lhs: Self, rhs: Self) -> Bool { lhs.figure < rhs.figure }
    // Declared although they would be there anyway, as calls with literals of integers are ambiguous otherwise.
    @inlinable public static func <= (lhs: Self, rhs: Self) -> Bool { lhs.figure <= rhs.figure }
    @inlinable public static func >= (lhs: Self, rhs: Self) -> Bool { lhs.figure >= rhs.figure }
    @inlinable public static func > (lhs: Self, rhs: Self) -> Bool { lhs.figure > rhs.figure }
}

extension Subscribers.Demand: CustomStringConvertible {
    public var description: String { max.map { "max(\($0))" } ?? "unlimited" }
}

extension Subscribers.Demand: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        self.init(figure: Swift.min(try container.decode(UInt.self), Subscribers.Demand.noLimit))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(figure)
    }
}

// Arithmetic: no limit stays no limit, and so does a sum too large to be told from it. Differences stop at none; one
// that is too large, as of the largest figure and a negative number, is none too, as in Combine. Only adding a negative
// number, or multiplying by one, can lead below none, and traps.

extension Subscribers.Demand {
    /// The sum. No limit stays no limit, and a sum beyond `Int.max` is none either; one below 0 traps.
    @inlinable public static func + (lhs: Self, rhs: Self) -> Self {
        let (sum, overflow) = lhs.figure.addingReportingOverflow(rhs.figure)
        return Self(figure: overflow || sum > noLimit ? noLimit : sum)
    }

    /// The sum. No limit stays no limit, and a sum beyond `Int.max` is none either; one below 0 traps.
    @inlinable public static func + (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (sum, overflow) = figure.addingReportingOverflow(rhs)
        return overflow ? .unlimited : .max(sum)
    }

    /// The difference, which stops at 0. No limit stays no limit.
    @inlinable public static func - (lhs: Self, rhs: Self) -> Self {
        if lhs == .unlimited { return lhs }
        return Self(figure: lhs.figure > rhs.figure ? lhs.figure - rhs.figure : 0)
    }

    /// The difference, which stops at 0. No limit stays no limit.
    @inlinable public static func - (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (difference, overflow) = figure.subtractingReportingOverflow(rhs)
        return .max(overflow ? 0 : Swift.max(difference, 0))
    }

    /// The product. No limit stays no limit, and a product beyond `Int.max` is none either; one below 0 traps.
    @inlinable public static func * (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (product, overflow) = figure.multipliedReportingOverflow(by: rhs)
        return overflow ? .unlimited : .max(product)
    }

    /// Adds, as `+` does.
    @inlinable public static func += (lhs: inout Self, rhs: Self) { lhs = lhs + rhs }
    /// Adds, as `+` does.
    @inlinable public static func += (lhs: inout Self, rhs: Int) { lhs = lhs + rhs }
    /// Subtracts, as `-` does.
    @inlinable public static func -= (lhs: inout Self, rhs: Self) { lhs = lhs - rhs }
    /// Subtracts, as `-` does.
    @inlinable public static func -= (lhs: inout Self, rhs: Int) { lhs = lhs - rhs }
    /// Multiplies, as `*` does.
    @inlinable public static func *= (lhs: inout Self, rhs: Int) { lhs = lhs * rhs }
}

// Comparison with numbers: no limit is above every number.

extension Subscribers.Demand {
    /// Whether it is this number, which no limit never is.
    @inlinable public static func == (lhs: Self, rhs: Int) -> Bool { lhs.max == rhs }
    /// Whether it is this number, which no limit never is.
    @inlinable public static func == (lhs: Int, rhs: Self) -> Bool { rhs == lhs }
    /// Whether it is not this number, which no limit never is.
    @inlinable public static func != (lhs: Self, rhs: Int) -> Bool { lhs.max != rhs }
    /// Whether it is not this number, which no limit never is.
    @inlinable public static func != (lhs: Int, rhs: Self) -> Bool { rhs != lhs }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func < (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 < rhs } ?? false }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func <= (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 <= rhs } ?? false }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func > (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 > rhs } ?? true }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func >= (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 >= rhs } ?? true }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func < (lhs: Int, rhs: Self) -> Bool { rhs > lhs }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func <= (lhs: Int, rhs: Self) -> Bool { rhs >= lhs }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func > (lhs: Int, rhs: Self) -> Bool { rhs < lhs }
    /// Compares with a number; no limit is above all of them.
    @inlinable public static func >= (lhs: Int, rhs: Self) -> Bool { rhs <= lhs }
}
