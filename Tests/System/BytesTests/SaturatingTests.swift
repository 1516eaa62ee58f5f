// Sums at and beyond the maximum.

import Bytes
import Testing

@Suite struct SaturatingTests {
    @Test(
        arguments: [
            (0, 0, 0), (1, 2, 3), (.max - 1, 1, .max), (.max, 0, .max), (.max, 1, .max), (1, .max, .max),
            (.max, .max, .max), (1 << 63, 1 << 63, .max), (1 << 63, (1 << 63) - 1, .max),
        ] as [(UInt64, UInt64, UInt64)])
    func sumsStopAtTheLargestFigure(_ a: UInt64, _ b: UInt64, _ sum: UInt64) {
        #expect(a.addingClamped(b) == sum)
        #expect(b.addingClamped(a) == sum)
    }

    @Test func eachTypeHasItsOwn() {
        #expect(UInt8(200).addingClamped(56) == 255)
        #expect(UInt8(200).addingClamped(55) == 255)
        #expect(UInt8(200).addingClamped(54) == 254)
        #expect(UInt32.max.addingClamped(.max) == .max)
    }
}
