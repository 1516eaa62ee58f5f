// MemoryTally: the broker's memory as counted by traversing everything, for the simulator, which compares it with
// `MemoryBudget.used`. The broker does not use it.

import ForebayWire

/// Regions of memory, each counted once, however many references there are.
package struct MemoryTally: CustomStringConvertible {
    private var seen: Set<ObjectIdentifier> = []
    /// Bytes of all logs, the parts that belong to the broker's own topics and to messages read from the store, and the
    /// largest region.
    package private(set) var logs = 0
    package private(set) var ownLogs = 0
    package private(set) var history = 0
    package private(set) var largestChunk = 0
    /// The most regions from the store that one view holds.
    package private(set) var mostHistory = 0
    /// Bytes of publishes that wait for room.
    package private(set) var parked = 0
    /// Bytes of messages that were encoded in a form other than the log's.
    private var runs = 0
    /// Bytes that connections use themselves: blocks of output, requests and answers, and what is kept for resumption.
    private var blocks = 0
    private var requests = 0
    private var kept = 0
    /// Bytes of messages between shards.
    private var messages = 0
    /// Bytes of publishers whose numbers are remembered.
    private var publishers = 0
    /// Bytes of the cursors of subscriptions to patterns.
    private var cursors = 0

    /// Connections whose requests are charged a size that is out of date until the next tick.
    package fileprivate(set) var stale = 0

    package init() {}

    package var bytes: Int { logs + parked + runs + blocks + requests + kept + messages + publishers + cursors }

    package var description: String {
        "logs \(logs) (own \(ownLogs), from the store \(history), largest chunk \(largestChunk)), "
            + "parked \(parked), runs \(runs), blocks \(blocks), requests \(requests), kept \(kept), "
            + "messages \(messages), publishers \(publishers), cursors \(cursors)"
    }

    fileprivate mutating func add(_ region: AnyObject, isOwn: Bool = false, isHistory: Bool = false) {
        guard seen.insert(ObjectIdentifier(region)).inserted else { return }
        switch region {
        case let chunk as Chunk:
            logs += chunk.capacity
            if isOwn { ownLogs += chunk.capacity }
            if isHistory { history += chunk.capacity }
            largestChunk = Swift.max(largestChunk, chunk.capacity)
        case let block as Block: blocks += block.capacity
        case let run as EntryRun: runs += run.capacity
        default: break
        }
    }

    fileprivate mutating func add(_ pieces: [LogPiece]) {
        for piece in pieces { add(piece.chunk) }
    }

    fileprivate mutating func add(_ log: Log, isOwn: Bool = false) {
        mostHistory = Swift.max(mostHistory, log.history.pieces.count)
        for piece in log.history.pieces { add(piece.chunk, isOwn: isOwn, isHistory: true) }
        for piece in log.allPieces { add(piece.chunk, isOwn: isOwn) }
    }

    fileprivate mutating func add(parked bytes: Int) { parked += bytes }
    fileprivate mutating func add(requests bytes: Int) { requests += bytes }
    fileprivate mutating func add(kept bytes: Int) { kept += bytes }
    fileprivate mutating func add(publishers bytes: Int) { publishers += bytes }
    fileprivate mutating func add(cursors bytes: Int) { cursors += bytes }
    fileprivate mutating func add(messages bytes: Int) { messages += bytes }
}

extension AppendedMessages {
    /// Adds messages that the store has not written. Their topic may have withdrawn them.
    package func add(to tally: inout MemoryTally) { tally.add(pieces) }
}

extension Inspector {
    /// Adds what this shard references. Messages that have left it belong to their receivers.
    package func add(to tally: inout MemoryTally) {
        for topic in topics.all {
            tally.add(topic.log, isOwn: TopicName.isSystem(topic.name))
            tally.add(parked: topic.publishers.ifAny?.parked.memory ?? 0)
            tally.add(publishers: topic.publishers.numbers?.memory ?? 0)
        }
        for view in views.named { tally.add(view.log) }
        for view in views.attached {
            tally.add(view.log)
            view.entries.forEachRun { tally.add($0) }
            let cursors = view.members.count { $0.match != nil } + view.waiting.count { $0.match != nil }
            tally.add(cursors: cursors * PatternSubscribing.cursorMemory)
        }
        for memory in rateLimiter.waitingMemory { tally.add(parked: memory) }
        tally.add(messages: forwarding.bytes + reports.charged)
        pool.forEachSpare { tally.add($0) }
        for place in 0..<connections.bound {
            if let connection = connections.at(place) { add(connection, to: &tally) }
        }
        for place in 0..<streams.bound {
            guard let stream = streams.at(place) else { continue }
            switch stream.kind {
            case .publisher: tally.add(parked: stream.asPublisher.early.bytes.count)
            case .pattern: tally.add(cursors: stream.asPattern.memory)
            default: break
            }
        }
        for case .append(let messages) in effects.store { messages.add(to: &tally) }
        for messages in effects.messages.joined() { messages.add(to: &tally) }
        for messages in effects.deferredMessages.joined() { messages.add(to: &tally) }
    }

    private func add(_ connection: Connection, to tally: inout MemoryTally) {
        tally.add(requests: connection.input.charged)
        if !connection.isClosed, connection.input.charged != connection.bufferedBytes { tally.stale += 1 }
        tally.add(kept: (connection.output.kept?.store.capacity ?? 0) + connection.output.segmentMemory)
        connection.output.forEachOwner { tally.add($0) }
        // The waiters' views may have been removed already.
        connection.waiters.forEachOutputWaiter { tally.add($0.view.log) }
        _ = connection.forEachShared { region, _ in tally.add(region) }
    }
}

extension ShardMessage {
    /// Adds the pieces of logs that the message carries.
    package func add(to tally: inout MemoryTally) {
        switch content {
        case .attached(_, let view): tally.add(view.pieces)
        case .advance(_, let advance): tally.add(advance.fresh)
        default: break
        }
    }
}
