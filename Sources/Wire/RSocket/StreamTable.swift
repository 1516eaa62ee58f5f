// StreamTable: the open streams of a connection, sorted by id. Ids ascend except at a wrap, so inserting is usually
// appending; lookup is a binary search. An entry has 16 bytes and stays for a while after its stream has ended.

struct StreamEntry {
    var id: UInt32
    var handle = StreamEntry.noHandle
    let kind: Interaction
    /// Whether the requester will send no more items, because it has completed or we cancelled it.
    var requesterDone: Bool
    /// Whether we have completed our half.
    var responderDone = false
    /// Whether the owner has received the request.
    var announced: Bool
    /// Whether fragments of the request or of an item are being reassembled.
    var assembling = false
    /// Whether the stream has been removed while its entry is still in the table.
    fileprivate(set) var isGone = false

    static let noHandle = UInt32.max

    var knownHandle: UInt32? { handle == StreamEntry.noHandle ? nil : handle }
}

struct StreamTable {
    /// Includes removed entries.
    private(set) var entries: [StreamEntry] = []
    private var gone = 0

    var count: Int { entries.count - gone }

    /// The index of stream `id`; nil if it is not open.
    func find(_ id: UInt32) -> Int? {
        let index = position(of: id)
        return index < entries.count && entries[index].id == id && !entries[index].isGone ? index : nil
    }

    /// Adds an entry whose id is not in the table.
    mutating func insert(_ entry: StreamEntry) {
        guard let last = entries.last, last.id >= entry.id else { return entries.append(entry) }
        let place = position(of: entry.id)
        if entries[place].isGone {
            // The removed entry's id lies between the new one's neighbors, so the order is preserved.
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

    /// Marks the entry as removed. Once removed entries outnumber the others, all are deleted together, so that ending
    /// one stream among many moves no entries.
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

    /// Deletes removed entries and frees the memory of a burst of streams.
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

    /// The index of `id`, or where to insert it.
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
