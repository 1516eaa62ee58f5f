// Saturating: sums that stop at the largest figure, for counts and times that a peer has a part in.

extension FixedWidthInteger where Self: UnsignedInteger {
    /// The sum, or the largest figure of the type where that would be more.
    @inlinable
    public func addingClamped(_ other: Self) -> Self {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? .max : sum
    }
}
