// SubscriptionID: identifies a stream in requests for more credit. It has 128 random bits, so that only a client that
// received it can use it.

import Bytes

/// Identifies a streaming subscription in `/v1/subscriptions/{id}/request`.
public struct SubscriptionID: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    /// - Parameters: 128 bits from an unpredictable generator.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Parses 32 hexadecimal digits; nil for anything else.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 32 else { return nil }
        var halves = (high: UInt64(0), low: UInt64(0))
        for digit in text.utf8 {
            guard let value = Hex.value(digit) else { return nil }
            halves.high = halves.high << 4 | halves.low >> 60
            halves.low = halves.low << 4 | UInt64(value)
        }
        self.init(high: halves.high, low: halves.low)
    }

    /// 32 hexadecimal digits in lower case.
    public var text: String {
        String(unsafeUninitializedCapacity: 32) { digits in
            for index in 0..<16 {
                let shift = UInt64(60 - 4 * index)
                digits[index] = Hex.digit(UInt8(high >> shift & 15))
                digits[16 + index] = Hex.digit(UInt8(low >> shift & 15))
            }
            return 32
        }
    }
}
