// ChannelTable: the channels of a topic, by key and as a list.

struct ChannelTable {
    private var byKey = PartitionedDictionary<StreamKey, Channel>()
    /// The channels; each stores its index here.
    private(set) var all: [Channel] = []

    var count: Int { all.count }
    var isEmpty: Bool { all.isEmpty }
    /// Some channel; nil if there is none. The choice is deterministic.
    var any: Channel? { all.last }

    /// All channels in a deterministic order.
    var inOrder: [Channel] {
        all.sorted {
            ($0.key.shard, $0.key.handle.index, $0.key.handle.generation)
                < ($1.key.shard, $1.key.handle.index, $1.key.handle.generation)
        }
    }

    subscript(key: StreamKey) -> Channel? { byKey[key] }

    mutating func insert(_ channel: Channel) {
        channel.place = all.count
        all.append(channel)
        byKey[channel.key] = channel
    }

    /// Returns whether the channel was in the table.
    mutating func remove(_ channel: Channel) -> Bool {
        guard byKey.removeValue(forKey: channel.key) != nil else { return false }
        let last = all.removeLast()
        if last !== channel {
            all[channel.place] = last
            last.place = channel.place
        }
        return true
    }
}
