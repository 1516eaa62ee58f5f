// Scratch: a buffer into which frames of a chunk are copied just before they are written, if they need a stream id
// other than the log's. All connections of a shard use it in turn, so that it stays in the processor's cache, which
// separate buffers would not.

final class Scratch {
    /// The most bytes of patched frames that one `Output.gather` returns; the default of `Limits.output`. Every shard
    /// has one such buffer, like its read buffer, so it does not count towards the memory of topics and connections.
    static let size = 256 << 10

    private let region: UnsafeMutableRawBufferPointer
    private var used = 0

    init(size: Int) {
        // The buffer's pages are not allocated before they are used.
        region = .allocate(byteCount: size, alignment: 64)
    }

    deinit { region.deallocate() }

    /// Starts over: frames added earlier are no longer valid.
    func clear() { used = 0 }

    /// Copies as many of the frames at `start` as fit, with `stream` as their stream id. Returns the copies; empty if
    /// the first frame does not fit. They directly follow the frames added earlier.
    func add(_ start: UnsafeRawPointer, _ count: Int, stream: UInt32) -> UnsafeRawBufferPointer {
        let part = min(count, region.count - used)
        let target = UnsafeMutableRawBufferPointer(rebasing: region[used..<used + part])
        target.copyMemory(from: UnsafeRawBufferPointer(start: start, count: part))
        let whole = PayloadFraming.patch(target, stream: stream)
        used += whole
        return UnsafeRawBufferPointer(rebasing: target[..<whole])
    }
}
