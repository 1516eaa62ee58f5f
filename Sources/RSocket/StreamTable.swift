// StreamTable: the open streams of a connection, sorted by id. Ids ascend but for a wrap, so that adding is appending;
// a search is binary. 12 bytes a stream.

struct StreamEntry {
    var id: UInt32
    var handle = StreamEntry.noHandle
    let kind: Interaction
    /// The requester will send no more items: it completed, or we cancelled it.
    var requesterDone: Bool
    /// We completed our half.
    var responderDone = false
    /// The request has been told to the owner.
    var announced: Bool
    /// Fragments of the request, or of an item, are being put together.
    var assembling = false

    static let noHandle = UInt32.max

    var knownHandle: UInt32? { handle == StreamEntry.noHandle ? nil : handle }
}

struct StreamTable {
    private(set) var entries: [StreamEntry] = []

    var count: Int { entries.count }

    /// The index of stream `id`, nil when it is not open.
    func find(_ id: UInt32) -> Int? {
        let index = position(of: id)
        return index < entries.count && entries[index].id == id ? index : nil
    }

    /// Adds an entry whose id is not in the table.
    mutating func insert(_ entry: StreamEntry) {
        if let last = entries.last, last.id > entry.id {
            entries.insert(entry, at: position(of: entry.id))
        } else {
            entries.append(entry)
        }
    }

    subscript(index: Int) -> StreamEntry {
        get { entries[index] }
        _modify { yield &entries[index] }
    }

    @discardableResult
    mutating func remove(at index: Int) -> StreamEntry {
        let entry = entries.remove(at: index)
        // A burst of streams does not hold memory for ever.
        if entries.capacity > 64 && entries.count < entries.capacity / 8 {
            var smaller: [StreamEntry] = []
            smaller.reserveCapacity(entries.count * 2)
            smaller.append(contentsOf: entries)
            entries = smaller
        }
        return entry
    }

    mutating func removeAll() { entries = [] }

    /// Where `id` stands or would stand.
    private func position(of id: UInt32) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
