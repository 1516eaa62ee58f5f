// RandomSource: numbers that remain unpredictable to clients that know some of them. Epochs are public and must not
// reveal the ids of other clients' subscriptions.
//
// SipHash-2-4 of a counter, with a key derived from the seed. https://www.aumasson.jp/siphash/siphash.pdf

package struct RandomSource: RandomNumberGenerator {
    private let key: (UInt64, UInt64)
    private var counter: UInt64 = 0

    /// - Parameter seed: from the operating system. The numbers are as hard to guess as the seed.
    package init(seed: UInt64) {
        key = (seed, ~seed.byteSwapped)
    }

    package mutating func next() -> UInt64 {
        counter &+= 1
        return RandomSource.hash(counter, key)
    }

    /// SipHash-2-4 of the eight bytes of `word`, least significant first.
    static func hash(_ word: UInt64, _ key: (UInt64, UInt64)) -> UInt64 {
        var state = State(
            a: key.0 ^ 0x736F_6D65_7073_6575, b: key.1 ^ 0x646F_7261_6E64_6F6D, c: key.0 ^ 0x6C79_6765_6E65_7261,
            d: key.1 ^ 0x7465_6462_7974_6573)
        // The word, and a final block with the length in its highest byte.
        for block in [word, 8 << 56] {
            state.d ^= block
            state.round()
            state.round()
            state.a ^= block
        }
        state.c ^= 0xFF
        for _ in 0..<4 { state.round() }
        return state.a ^ state.b ^ state.c ^ state.d
    }

    private struct State {
        var a: UInt64
        var b: UInt64
        var c: UInt64
        var d: UInt64

        mutating func round() {
            a &+= b
            c &+= d
            b = State.rotate(b, 13) ^ a
            d = State.rotate(d, 16) ^ c
            a = State.rotate(a, 32)
            c &+= b
            a &+= d
            b = State.rotate(b, 17) ^ c
            d = State.rotate(d, 21) ^ a
            c = State.rotate(c, 32)
        }

        private static func rotate(_ word: UInt64, _ bits: UInt64) -> UInt64 { word << bits | word >> (64 - bits) }
    }
}
