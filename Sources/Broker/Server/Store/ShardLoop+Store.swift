// ShardLoop+Store: passes the engine's requests to the store.

import Core
import Store

extension ShardLoop {
    /// Submits the turn's requests together. The store's reports about them come back as one list.
    func submitToStore() {
        var requests: [StoreRequest] = []
        swap(&requests, &shard.effects.store)
        guard let store = context.store else { return }
        var writes: [StoreWrite] = []
        var reports: [StoreReport] = []
        var isUrgent = false
        for request in requests {
            switch request {
            case .keep(let row): writes.append(.create(TopicRecord(row, createdAt: now.wall)))
            case .append(let messages):
                let bodies = messages.bodies(most: StoreService.batchBytes)
                writes += bodies.map { .append(TopicID(messages.id.value), MessageBatchSource(body: $0)) }
                reports.append(.committed(topic: messages.topic, attempt: messages.attempt, upTo: messages.end))
                isUrgent = isUrgent || messages.isAwaited
            case .publishers(let id, let changes): writes.append(.publishers(id, changes))
            case .trim(let id, let sequence): writes.append(.trim(TopicID(id.value), before: sequence.value))
            case .end(let id, let epoch, let end):
                writes.append(.end(id, end))
                reports.append(.ended(topic: epoch))
                isUrgent = true
            case .delete(let id, let epoch):
                writes.append(.delete(TopicID(id.value)))
                reports.append(.ended(topic: epoch))
                isUrgent = true
            case .purge(let id): writes.append(.purge(TopicID(id.value)))
            case .read(let request): store.read(request, for: index)
            case .search(let search): store.find(search, for: index)
            }
        }
        guard !writes.isEmpty else { return }
        storeReports.append(reports)
        store.submit(writes, from: index, isUrgent: isUrgent)
    }

    /// The store has finished the oldest submissions.
    func takeStored(_ outcomes: [StoreOutcome]) {
        for outcome in outcomes {
            guard let failure = outcome.failure else { continue }
            context.storeHealth.note(failure, now: now.monotonic)
        }
        shard.stored(storeReports.take(outcomes), now: now)
    }
}
