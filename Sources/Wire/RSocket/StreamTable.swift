// StreamTable: the open streams of a connection, sorted by id. Ids ascend but for a wrap, so that adding is appending;
// a search is binary. 16 bytes a stream, and as much for one that has ended, for a while.

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
    /// It has been removed, and keeps its place for a while.
    fileprivate(set) var isGone = false

    static let noHandle = UInt32.max

    var knownHandle: UInt32? { handle == StreamEntry.noHandle ? nil : handle }
}

struct StreamTable {
    /// Some may be gone.
    private(set) var entries: [StreamEntry] = []
    private var gone = 0

    var count: Int { entries.count - gone }

    /// The index of stream `id`, nil when it is not open.
    func find(_ id: UInt32) -> Int? {
        let index = position(of: id)
        return index < entries.count && entries[index].id == id && !entries[index].isGone ? index : nil
    }

    /// Adds an entry whose id is not in the table.
    mutating func insert(_ entry: StreamEntry) {
        guard let last = entries.last, last.id >= entry.id else { return entries.append(entry) }
        let place = position(of: entry.id)
        if entries[place].isGone {
            // Whatever its id was: it stood between the neighbours of the new one.
            entries[place] = entry
            gone -= 1
        } else {
            entries.insert(entry, at: place)
        }
    }

    subscript(index: Int) -> StreamEntry {
        get { entries[index] }
        _modify { yield &entries[index] }
    }

    /// Marks the entry as gone, and takes those that are gone out when they are more than those that are not: a stream
    /// that ends among many moves none of them.
    @discardableResult
    mutating func remove(at index: Int) -> StreamEntry {
        let entry = entries[index]
        entries[index].isGone = true
        gone += 1
        while let last = entries.last, last.isGone {
            entries.removeLast()
            gone -= 1
        }
        if gone > count + StreamTable.fewGone || entries.capacity > 8 * (count + StreamTable.fewGone) { compact() }
        return entry
    }

    private static let fewGone = 16

    /// A burst of streams does not hold memory for ever.
    private mutating func compact() {
        var kept: [StreamEntry] = []
        kept.reserveCapacity(count * 2)
        for entry in entries where !entry.isGone { kept.append(entry) }
        entries = kept
        gone = 0
    }

    mutating func removeAll() {
        entries = []
        gone = 0
    }

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
