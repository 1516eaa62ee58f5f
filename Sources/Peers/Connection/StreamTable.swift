// StreamTable: the objects bound to the streams of a shard's connections, by handles that other shards use too.

final class StreamTable: ShardPart {
    private var table = Slab<BoundStream>()

    var count: Int { table.count }
    /// One past the highest index in use.
    var bound: Int { table.bound }
    func at(_ place: Int) -> BoundStream? { table.at(place) }
    subscript(handle: Handle) -> BoundStream? { table[handle] }
    @discardableResult
    func insert(_ make: (Handle) -> BoundStream) -> BoundStream { table.insert(make) }
    func remove(_ handle: Handle) { table.remove(handle) }

    /// Removes all streams; called when the shard is destroyed.
    func removeAll() { table = Slab() }

    func key(_ stream: BoundStream) -> StreamKey { StreamKey(shard: index, handle: stream.handle) }

    /// The publisher with a handle of this shard; nil if it is gone.
    func publisher(_ handle: Handle) -> Publisher? {
        guard let stream = table[handle], stream.kind == .publisher else { return nil }
        return stream.asPublisher
    }
}
