// Chance: the only source of randomness of a run. Everything that is drawn comes from one generator, in the order in
// which it is asked, so that a seed tells all of a run.

import Core

final class Chance {
    private var source: RandomSource

    init(seed: UInt64) { source = RandomSource(seed: seed) }

    /// 0 ..< `bound`; 0 if that is 0 or 1.
    func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(source.next() % UInt64(bound)) }
    func isOne(in count: Int) -> Bool { below(count) == 0 }
    func pick<T>(_ values: [T]) -> T { values[below(values.count)] }
    func number() -> UInt64 { source.next() }

    /// Small ones more often than large ones.
    func size(upTo most: Int) -> Int { 1 + below(1 + below(most)) }
}
