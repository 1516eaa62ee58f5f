// Scratch: where frames of a chunk are copied that must carry another stream id than the log's, right before they are
// written. All connections of a shard share it, one after the other, so that it stays in the processor's cache; a copy
// of its own for each would not.

final class Scratch {
    /// Bytes of patched frames that one `Output.gather` offers at most; as many as `Limits.output` by default. A part
    /// of every shard, as the buffer that it reads into is, and so not counted with what topics and connections hold.
    static let size = 256 << 10

    private let region: UnsafeMutableRawBufferPointer
    private var used = 0

    init(size: Int) {
        // No page of it is there before it is used.
        region = .allocate(byteCount: size, alignment: 64)
    }

    deinit { region.deallocate() }

    /// Begins anew: what was added before is no longer valid.
    func clear() { used = 0 }

    /// Adds as many of the frames that lie at `start` as there is room for, with `stream` as their stream id. Returns
    /// them; empty if not even the first has room. They lie right behind those that were added before.
    func add(_ start: UnsafeRawPointer, _ count: Int, stream: UInt32) -> UnsafeRawBufferPointer {
        let part = min(count, region.count - used)
        let target = UnsafeMutableRawBufferPointer(rebasing: region[used..<used + part])
        target.copyMemory(from: UnsafeRawBufferPointer(start: start, count: part))
        let whole = PayloadFraming.patch(target, stream: stream)
        used += whole
        return UnsafeRawBufferPointer(rebasing: target[..<whole])
    }
}
