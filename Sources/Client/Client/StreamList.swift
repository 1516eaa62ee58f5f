// StreamList: the open streams of one connection, by id.

/// A stream or a call of a connection.
protocol NumberedStream: AnyObject {
    var id: StreamID { get }
}

/// A table of streams, ascending by id; lookup is a binary search. Nearly always there is only one stream, or the
/// newest is wanted, so the newest is tried first.
struct StreamList<Stream: NumberedStream> {
    private var streams: [Stream] = []

    var count: Int { streams.count }

    subscript(id: StreamID) -> Stream? { index(of: id.value).map { streams[$0] } }

    mutating func insert(_ stream: Stream) {
        // After a wrap of RSocket's ids, a new stream can precede older ones.
        let place = streams.lastIndex { $0.id.value < stream.id.value }.map { $0 + 1 } ?? 0
        streams.insert(stream, at: place)
    }

    mutating func remove(_ stream: Stream) {
        if let place = index(of: stream.id.value) { streams.remove(at: place) }
    }

    mutating func removeAll() { streams.removeAll() }

    private func index(of id: UInt32) -> Int? {
        if let last = streams.last, last.id.value == id { return streams.count - 1 }
        var low = 0
        var high = streams.count
        while low < high {
            let middle = (low + high) / 2
            if streams[middle].id.value < id { low = middle + 1 } else { high = middle }
        }
        return low < streams.count && streams[low].id.value == id ? low : nil
    }
}
