// HTTPStreamTable: the open streams of a connection, sorted by id. Ids ascend, so inserting is appending; lookup is a
// binary search.

struct HTTPStream {
    /// The state of the body that the owner sends.
    enum Body: UInt8 {
        /// No response with a body has begun, or nothing is queued.
        case idle
        /// Something may be queued; ask the sink.
        case ready
        /// Something is queued, but the peer's window is too small to be worth a frame.
        case held
    }

    let id: UInt32
    var handle = HTTPStream.noHandle
    /// Bytes delivered to the owner and not consumed yet.
    var unconsumed = 0
    var body = Body.idle
    /// Whether the owner knows the request, having received it or made it.
    var announced = false
    /// Whether the owner has responded or is a client.
    var responded = false
    /// Whether the head of the response has been written; set only by a server.
    var headSent = false
    /// Whether the end of the owner's half is known. A server then discards the rest of the request's body.
    var finishing = false
    /// Whether the end of the owner's half has been written.
    var localDone = false
    /// Whether the header of the frame that ends the peer's half has arrived. The peer may send nothing after that
    /// frame.
    var remoteEnding = false
    /// Whether the peer's half has ended.
    var remoteDone = false
    /// Whether the peer's error that ends the stream has been counted.
    var failed = false
    /// Whether the owner wants to be notified when there is room.
    var blocked = false
    var trailers: HTTPFields?

    static let noHandle = UInt32.max

    init(id: UInt32) { self.id = id }
}

struct HTTPStreamTable {
    private(set) var entries: [HTTPStream] = []

    var count: Int { entries.count }
    var capacity: Int { entries.capacity * MemoryLayout<HTTPStream>.stride }

    /// The index of stream `id`; nil if it is not open.
    func find(_ id: UInt32) -> Int? {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].id == id ? low : nil
    }

    /// Adds an entry whose id is higher than all others.
    mutating func append(_ entry: HTTPStream) { entries.append(entry) }

    subscript(index: Int) -> HTTPStream {
        // Access in place, because a copy would retain the trailers.
        _read { yield entries[index] }
        _modify { yield &entries[index] }
    }

    @discardableResult
    mutating func remove(at index: Int) -> HTTPStream {
        let entry = entries.remove(at: index)
        // Free the memory of a burst of streams.
        if entries.capacity > 64 && entries.count < entries.capacity / 8 {
            var smaller: [HTTPStream] = []
            smaller.reserveCapacity(entries.count * 2)
            smaller.append(contentsOf: entries)
            entries = smaller
        }
        return entry
    }

    mutating func removeAll() { entries = [] }
}
