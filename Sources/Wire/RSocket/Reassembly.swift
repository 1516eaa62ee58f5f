// Reassembly: fragmented requests and items that are not complete yet, oldest first.

import Bytes

/// One unfinished message. This is a class because events point at the bytes of a message while it is moved around.
/// Messages that arrive whole never need one.
final class Partial {
    let stream: UInt32
    /// When its first fragment arrived.
    var since: UInt64
    var initialN: UInt32
    /// Bytes of metadata at the front of `bytes`; nil until a fragment has M.
    private(set) var metadataCount: Int?
    private var bytes = ByteBuffer()

    init(stream: UInt32, since: UInt64, initialN: UInt32) {
        self.stream = stream
        self.since = since
        self.initialN = initialN
    }

    var dataCount: Int { bytes.count - (metadataCount ?? 0) }

    /// Bytes charged against the connection's limit.
    var cost: Int { bytes.count + ConnectionLimits.partialOverhead }
    /// Bytes of memory, including unused capacity.
    var memory: Int { bytes.capacity + ConnectionLimits.partialOverhead }

    func append(_ content: Content) {
        if let metadata = content.metadata {
            metadataCount = (metadataCount ?? 0) + metadata.count
            bytes.append(metadata)
        }
        bytes.append(content.data)
    }

    /// What has arrived so far; valid until the next `append` and while the object lives.
    var content: Content {
        let all = bytes.readable
        guard let count = metadataCount else { return Content(metadata: nil, data: all) }
        return Content(metadata: all.slice(0..<count), data: all.slice(count..<all.count))
    }
}

/// The unfinished messages of a connection.
struct Reassembly {
    private var partials: [Partial] = []
    /// The sums of `cost` and `memory` of all messages.
    private(set) var cost = 0
    private(set) var memory = 0

    var oldest: Partial? { partials.first }
    var count: Int { partials.count }

    mutating func add(_ partial: Partial) {
        partials.append(partial)
        cost += partial.cost
        memory += partial.memory
    }

    /// A linear search: there are at most `maxPartials`, and the wanted one is usually the newest.
    func find(_ stream: UInt32) -> Partial? {
        partials.last { $0.stream == stream }
    }

    mutating func append(_ content: Content, to partial: Partial) {
        cost -= partial.cost
        memory -= partial.memory
        partial.append(content)
        cost += partial.cost
        memory += partial.memory
    }

    /// Moves the start of all messages `time` later.
    func delay(by time: UInt64) {
        for partial in partials { partial.since &+= time }
    }

    @discardableResult
    mutating func remove(_ stream: UInt32) -> Partial? {
        guard let index = partials.lastIndex(where: { $0.stream == stream }) else { return nil }
        let partial = partials.remove(at: index)
        cost -= partial.cost
        memory -= partial.memory
        if partials.isEmpty { partials = [] }
        return partial
    }

    mutating func removeAll() {
        partials = []
        cost = 0
        memory = 0
    }
}
