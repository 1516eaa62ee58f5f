// Trace: all that happened in a run – what was drawn, what went to the engine and every byte both ways – as a hash that
// two runs of a seed have in common, and as lines for people on request.

/// Not to be shared between threads, as the run that fills it.
final class Trace {
    enum Kind: UInt8 {
        case plan, clock, act, turn, mail, read, end, lost, fire, writable, write, take, open, close, pause, log
        case cut, handover, takeOver, store
    }

    /// FNV-1a, over all events and bytes so far.
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var count = 0
    private let print: ((String) -> Void)?

    /// - Parameter print: takes each event as a line of text; nil spares the text.
    init(print: ((String) -> Void)?) { self.print = print }

    func add(_ kind: Kind, _ a: Int = 0, _ b: Int = 0, _ text: @autoclosure () -> String = "") {
        count += 1
        mix(UInt64(kind.rawValue))
        mix(UInt64(bitPattern: Int64(a)))
        mix(UInt64(bitPattern: Int64(b)))
        print?("\(count) \(kind) \(a) \(b) \(text())")
    }

    func add(_ bytes: UnsafeRawBufferPointer) {
        let words = bytes.count / 8
        for place in 0..<words { mix(bytes.loadUnaligned(fromByteOffset: 8 * place, as: UInt64.self)) }
        for byte in bytes[(8 * words)...] { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    private func mix(_ word: UInt64) {
        hash = (hash ^ word) &* 0x100_0000_01B3
        hash ^= hash >> 29
    }
}
