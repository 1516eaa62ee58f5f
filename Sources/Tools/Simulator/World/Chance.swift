// Chance: the only source of randomness in a run. All values come from one generator, in the order of the calls, so
// that a seed determines the entire run.

import Core

final class Chance {
    private var source: RandomSource

    init(seed: UInt64) { source = RandomSource(seed: seed) }

    /// A number in 0 ..< `bound`; 0 if that is 0 or 1.
    func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(source.next() % UInt64(bound)) }
    func isOne(in count: Int) -> Bool { below(count) == 0 }
    func pick<T>(_ values: [T]) -> T { values[below(values.count)] }
    func number() -> UInt64 { source.next() }

    /// A number from 1 to `most`; smaller values are more frequent.
    func size(upTo most: Int) -> Int { 1 + below(1 + below(most)) }
}
