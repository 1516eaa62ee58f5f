// Trace: everything that happened in a run (what was drawn, the engine's inputs, and every byte in both directions), as
// a hash that is the same for all runs of a seed, and optionally as readable lines.

/// Must not be shared between threads, and neither must the run that fills it.
final class Trace {
    enum Kind: UInt8 {
        case plan, clock, act, turn, messages, read, end, lost, fire, writable, write, take, open, close, pause, log
        case cut, handover, takeOver, store, restart
    }

    /// FNV-1a, over all events and bytes so far.
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var count = 0
    private let print: ((String) -> Void)?

    /// - Parameter print: receives each event as a line of text; if nil, no text is made.
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
