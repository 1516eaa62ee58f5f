// Decimal: formats numbers without creating a String, for answers to publishes.

enum Decimal {
    /// Digits of the largest number.
    private static let longest = 20

    /// Calls `body` with the decimal digits of `value`, which are valid during the call.
    @inline(__always)
    static func with<Result>(_ value: UInt64, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeTemporaryAllocation(byteCount: longest, alignment: 1) { space in
            var rest = value
            var first = longest
            repeat {
                first -= 1
                space[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            return body(UnsafeRawBufferPointer(rebasing: space[first...]))
        }
    }
}
