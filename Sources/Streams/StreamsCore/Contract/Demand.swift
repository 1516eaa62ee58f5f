// Demand: the number of values that a subscriber requests. Demand is cumulative.

extension Subscribers {
    /// A number of requested values: none, some, or unlimited.
    @frozen public struct Demand: Sendable {
        /// `Int.max` + 1 represents unlimited demand, so demands compare like their numbers.
        @usableFromInline let figure: UInt
        @usableFromInline static let noLimit = UInt(Int.max) + 1

        @usableFromInline init(figure: UInt) { self.figure = figure }

        /// Unlimited demand.
        @inlinable public static var unlimited: Demand { Demand(figure: noLimit) }
        /// No values. Requesting it has no effect.
        @inlinable public static var none: Demand { Demand(figure: 0) }
        /// - Parameter value: at least 0; a negative number traps.
        @inlinable public static func max(_ value: Int) -> Demand {
            precondition(value >= 0, "A demand cannot be negative.")
            return Demand(figure: UInt(value))
        }

        /// The number of values; nil if unlimited.
        @inlinable public var max: Int? { figure == Demand.noLimit ? nil : Int(figure) }

        /// The number of values; `Int.max` if unlimited.
        @usableFromInline var clamped: Int { max ?? .max }
    }
}

extension Subscribers.Demand: Hashable, Comparable {
    @inlinable public static func < (lhs: Self, rhs: Self) -> Bool { lhs.figure < rhs.figure }
    // Declared explicitly because calls with integer literals would be ambiguous otherwise.
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

// Arithmetic: unlimited demand stays unlimited, and a sum or product beyond `Int.max` becomes unlimited. Differences
// are clamped to 0. A difference that overflows (`Int.max` minus a negative number, for example) is 0 too, as in
// Combine. Only adding a negative number or multiplying by one can give a negative result, which traps.

extension Subscribers.Demand {
    /// The sum. Unlimited demand stays unlimited, and a sum beyond `Int.max` becomes unlimited; a negative sum traps.
    @inlinable public static func + (lhs: Self, rhs: Self) -> Self {
        let (sum, overflow) = lhs.figure.addingReportingOverflow(rhs.figure)
        return Self(figure: overflow || sum > noLimit ? noLimit : sum)
    }

    /// The sum. Unlimited demand stays unlimited, and a sum beyond `Int.max` becomes unlimited; a negative sum traps.
    @inlinable public static func + (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (sum, overflow) = figure.addingReportingOverflow(rhs)
        return overflow ? .unlimited : .max(sum)
    }

    /// The difference, at least 0. Unlimited demand stays unlimited.
    @inlinable public static func - (lhs: Self, rhs: Self) -> Self {
        if lhs == .unlimited { return lhs }
        return Self(figure: lhs.figure > rhs.figure ? lhs.figure - rhs.figure : 0)
    }

    /// The difference, at least 0. Unlimited demand stays unlimited.
    @inlinable public static func - (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (difference, overflow) = figure.subtractingReportingOverflow(rhs)
        return .max(overflow ? 0 : Swift.max(difference, 0))
    }

    /// The product. Unlimited demand stays unlimited, and a product beyond `Int.max` becomes unlimited; a negative one
    /// traps.
    @inlinable public static func * (lhs: Self, rhs: Int) -> Self {
        guard let figure = lhs.max else { return lhs }
        let (product, overflow) = figure.multipliedReportingOverflow(by: rhs)
        return overflow ? .unlimited : .max(product)
    }

    /// Adds, like `+`.
    @inlinable public static func += (lhs: inout Self, rhs: Self) { lhs = lhs + rhs }
    /// Adds, like `+`.
    @inlinable public static func += (lhs: inout Self, rhs: Int) { lhs = lhs + rhs }
    /// Subtracts, like `-`.
    @inlinable public static func -= (lhs: inout Self, rhs: Self) { lhs = lhs - rhs }
    /// Subtracts, like `-`.
    @inlinable public static func -= (lhs: inout Self, rhs: Int) { lhs = lhs - rhs }
    /// Multiplies, like `*`.
    @inlinable public static func *= (lhs: inout Self, rhs: Int) { lhs = lhs * rhs }
}

// Comparison with integers: unlimited demand is greater than every integer.

extension Subscribers.Demand {
    /// Whether the demand equals the number. Unlimited demand equals no number.
    @inlinable public static func == (lhs: Self, rhs: Int) -> Bool { lhs.max == rhs }
    /// Whether the demand equals the number. Unlimited demand equals no number.
    @inlinable public static func == (lhs: Int, rhs: Self) -> Bool { rhs == lhs }
    /// Whether the demand differs from the number. Unlimited demand differs from every number.
    @inlinable public static func != (lhs: Self, rhs: Int) -> Bool { lhs.max != rhs }
    /// Whether the demand differs from the number. Unlimited demand differs from every number.
    @inlinable public static func != (lhs: Int, rhs: Self) -> Bool { rhs != lhs }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func < (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 < rhs } ?? false }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func <= (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 <= rhs } ?? false }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func > (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 > rhs } ?? true }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func >= (lhs: Self, rhs: Int) -> Bool { lhs.max.map { $0 >= rhs } ?? true }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func < (lhs: Int, rhs: Self) -> Bool { rhs > lhs }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func <= (lhs: Int, rhs: Self) -> Bool { rhs >= lhs }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func > (lhs: Int, rhs: Self) -> Bool { rhs < lhs }
    /// Compares with a number. Unlimited demand is greater than every number.
    @inlinable public static func >= (lhs: Int, rhs: Self) -> Bool { rhs <= lhs }
}
