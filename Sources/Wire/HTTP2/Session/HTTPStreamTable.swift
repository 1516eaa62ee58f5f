// HTTPStreamTable: the open streams of a connection, sorted by id. Ids ascend, so that adding is appending; a search is
// binary.

struct HTTPStream {
    /// What is known of the body that the owner sends.
    enum Body: UInt8 {
        /// No response with a body has begun, or nothing is queued.
        case idle
        /// Something may be queued: the sink is to be asked.
        case ready
        /// Something is queued, but the peer's window is too small to be worth a frame.
        case held
    }

    let id: UInt32
    var handle = HTTPStream.noHandle
    /// Bytes told to the owner and not consumed yet.
    var unconsumed = 0
    var body = Body.idle
    /// The request has been told to the owner, or is the owner's.
    var announced = false
    /// The owner has responded, or is a client.
    var responded = false
    /// The head of the response has been written. Of a server.
    var headSent = false
    /// The end of the owner's half is known. For a server: what comes of the request's body is discarded.
    var finishing = false
    /// The end of the owner's half has been written.
    var localDone = false
    /// The head of the frame that ends the peer's half has come: it may send nothing behind that frame.
    var remoteEnding = false
    /// The peer's half has ended.
    var remoteDone = false
    /// An error of the peer's, for which the stream ends, has been counted.
    var failed = false
    /// The owner is to be told when there is room.
    var blocked = false
    var trailers: HTTPFields?

    static let noHandle = UInt32.max

    init(id: UInt32) { self.id = id }
}

struct HTTPStreamTable {
    private(set) var entries: [HTTPStream] = []

    var count: Int { entries.count }
    var capacity: Int { entries.capacity * MemoryLayout<HTTPStream>.stride }

    /// The index of stream `id`, nil when it is not open.
    func find(_ id: UInt32) -> Int? {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].id == id ? low : nil
    }

    /// Adds an entry whose id is above all others.
    mutating func append(_ entry: HTTPStream) { entries.append(entry) }

    subscript(index: Int) -> HTTPStream {
        // Without a copy, which would count references to the trailers.
        _read { yield entries[index] }
        _modify { yield &entries[index] }
    }

    @discardableResult
    mutating func remove(at index: Int) -> HTTPStream {
        let entry = entries.remove(at: index)
        // A burst of streams does not hold memory for ever.
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
