// Saturating: sums that stop at the largest value, for counts and times that a peer can influence.

extension FixedWidthInteger where Self: UnsignedInteger {
    /// The sum, or the type's largest value on overflow.
    @inlinable
    public func addingClamped(_ other: Self) -> Self {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? .max : sum
    }
}
