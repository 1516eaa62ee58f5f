// Chance: the only source of randomness of a model (SplitMix64). The same seed gives the same numbers.

struct Chance {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func number() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number in 0 ..< `bound`; 0 if that is 0 or less.
    mutating func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(number() % UInt64(bound)) }

    /// Whether an event happens that happens once in `count` cases; never if that is 0.
    mutating func isOne(in count: Int) -> Bool { count > 0 && below(count) == 0 }

    /// A time from 0 to `most`.
    mutating func time(upTo most: UInt64) -> UInt64 { most == 0 ? 0 : number() % most.addingOne }
}

extension UInt64 {
    fileprivate var addingOne: UInt64 { self == .max ? .max : self + 1 }
}
