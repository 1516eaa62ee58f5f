// Store: the store of a run's stored topics. This store commits late, sometimes a part of a batch, and returns history
// late, in pieces and in any order.

import Core
import Replay

final class Store {
    enum Word {
        case report(StoreReport)
        case answer(HistoryRequest, HistoryAnswer)
        case found(SequenceNumber?, TimeSearch)
    }

    private struct Topic {
        var kept = SequenceNumber.first
        var messages: [SequenceNumber: StoredMessage] = [:]
    }

    private var topics: [StoreID: Topic] = [:]
    /// What a transaction has to contain.
    private enum Write {
        case append(AppendedMessages)
        case end(StoreID, epoch: UInt64)
    }
    /// By shard, oldest first.
    private var writes: [[Write]]
    private var reads: [[HistoryRequest]]
    private var searches: [[TimeSearch]]
    private let chance: Chance

    init(_ plan: Plan, _ chance: Chance) {
        writes = Array(repeating: [], count: plan.shards)
        reads = Array(repeating: [], count: plan.shards)
        searches = Array(repeating: [], count: plan.shards)
        self.chance = chance
    }

    func isAtRest(_ shard: Int) -> Bool {
        writes[shard].isEmpty && reads[shard].isEmpty && searches[shard].isEmpty
    }

    func take(_ requests: [StoreRequest], from shard: Int) {
        for request in requests {
            switch request {
            case .keep: break
            case .append(let messages): writes[shard].append(.append(messages))
            case .end(let id, let epoch, _), .delete(let id, let epoch): writes[shard].append(.end(id, epoch: epoch))
            case .purge(let id): topics[id] = nil
            case .read(let request): reads[shard].append(request)
            case .search(let search): searches[shard].append(search)
            case .trim(let topic, let end):
                guard let kept = topics[topic]?.kept, end > kept else { continue }
                for sequence in kept.value..<end.value { topics[topic]?.messages[SequenceNumber(sequence)] = nil }
                topics[topic]?.kept = end
            }
        }
    }

    /// The next response for the shard; nil for none in this turn.
    /// - Parameter isPartial: whether some responses may be held back.
    func next(_ shard: Int, _ memory: MemoryBudget, _ isPartial: Bool) -> Word? {
        if isAtRest(shard) || isPartial && chance.isOne(in: 2) { return nil }
        if !searches[shard].isEmpty, chance.isOne(in: 2) || writes[shard].isEmpty && reads[shard].isEmpty {
            let search = searches[shard].remove(at: chance.below(searches[shard].count))
            return .found(first(search), search)
        }
        if writes[shard].isEmpty && reads[shard].isEmpty { return nil }
        if reads[shard].isEmpty || !writes[shard].isEmpty && chance.isOne(in: 2) { return commit(shard, isPartial) }
        let request = reads[shard].remove(at: chance.below(reads[shard].count))
        return .answer(request, answer(request, memory))
    }

    private func first(_ search: TimeSearch) -> SequenceNumber? {
        topics[search.id]?.messages.filter { $0.value.timestamp >= search.time }.keys.min()
    }

    private func commit(_ shard: Int, _ isPartial: Bool) -> Word {
        switch writes[shard].removeFirst() {
        case .append(let messages):
            let end = commit(messages, shard, isPartial)
            return .report(.committed(topic: messages.topic, attempt: messages.attempt, upTo: end))
        case .end(_, let epoch):
            return .report(.ended(topic: epoch))
        }
    }

    /// Commits the messages, or the first of them. Returns the end of what is committed.
    private func commit(_ next: AppendedMessages, _ shard: Int, _ isPartial: Bool) -> SequenceNumber {
        let length = Int(next.end.value - next.first.value)
        let part = isPartial && length > 1 && chance.isOne(in: 2) ? 1 + chance.below(length - 1) : length
        let end = SequenceNumber(next.first.value + UInt64(part))
        for (index, message) in next.messages.prefix(part).enumerated() {
            let sequence = SequenceNumber(next.first.value + UInt64(index))
            topics[next.id, default: Topic()].messages[sequence] = message
        }
        if part < length { writes[shard].insert(.append(next.after(end)), at: 0) }
        return end
    }

    private func answer(_ request: HistoryRequest, _ memory: MemoryBudget) -> HistoryAnswer {
        guard let topic = topics[request.id], request.first >= topic.kept else {
            return .gone(before: topics[request.id]?.kept ?? request.end)
        }
        var messages: [StoredMessage] = []
        var bytes = 0
        let most = chance.pick([1, 5, 1000])
        for sequence in request.first.value..<request.end.value where messages.count < most && bytes < 64 << 10 {
            guard let message = topic.messages[SequenceNumber(sequence)] else { break }
            messages.append(message)
            bytes += message.size
        }
        return .found(StoredMessages(first: request.first, messages, budget: memory))
    }
}
