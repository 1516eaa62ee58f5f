// ClientStreams: the open streams of one connection, by id.

/// A table of streams, ascending by id, so that looking one up is a search by halves; nearly always there is one
/// stream, or the newest is meant, and that is looked at first.
struct ClientStreams {
    private var streams: [ClientStream] = []
    private var nextID: UInt32 = 1

    var count: Int { streams.count }

    subscript(id: StreamID) -> ClientStream? { index(of: id.value).map { streams[$0] } }

    /// An id that no open stream has. Ids are odd; after the last one they begin anew (RSocket, "Stream Identifiers").
    mutating func freshID() -> StreamID {
        while index(of: nextID) != nil { advance() }
        defer { advance() }
        return StreamID(nextID)
    }

    mutating func insert(_ stream: ClientStream) {
        // After a wrap of the ids a new stream can stand before older ones.
        let place = streams.lastIndex { $0.id.value < stream.id.value }.map { $0 + 1 } ?? 0
        streams.insert(stream, at: place)
    }

    mutating func remove(_ stream: ClientStream) {
        if let place = index(of: stream.id.value) { streams.remove(at: place) }
    }

    mutating func removeAll() { streams.removeAll() }

    private mutating func advance() { nextID = nextID >= 0x7fff_ffff ? 1 : nextID + 2 }

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
