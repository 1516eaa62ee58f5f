// Store: the store of a run's stored topics. This store commits late, sometimes reports a part of a batch, and returns
// history late, in pieces and in any order. It may refuse what it should write, and lose it in a crash.
//
//     take ─▶ unwritten ─▶ disk ─▶ reports, perhaps later
//                 └─ refused ──▶ reports

import Core
import Replay

final class Store {
    enum Word {
        case report(StoreReport)
        /// All reports about a submission that was refused.
        case refused([StoreReport], StoreFailure)
        case answer(HistoryRequest, HistoryAnswer)
        case found(SequenceNumber?, TimeSearch)
    }

    /// Requests that are written together.
    private struct Submission {
        let number: Int
        let requests: [StoreRequest]
    }

    /// What has to be reported about a submission.
    private struct Due {
        enum Event {
            case append(AppendedMessages)
            case end(epoch: UInt64)
        }

        let submission: Int
        var event: Event

        func report(_ failure: StoreFailure, isEndWritten: Bool) -> StoreReport {
            switch event {
            case .append(let messages): .refused(topic: messages.topic, attempt: messages.attempt, failure)
            case .end(let epoch): isEndWritten ? .ended(topic: epoch) : .endRefused(topic: epoch, failure)
            }
        }
    }

    /// What one shard has requested, oldest first.
    private struct Line {
        var unwritten: [Submission] = []
        var due: [Due] = []
        /// The submission about which the latest report was.
        var reported = -1
        var reads: [HistoryRequest] = []
        var searches: [Search] = []
    }

    /// A search, and its result if it was made before it is reported.
    private struct Search {
        let search: TimeSearch
        var result: SequenceNumber??
    }

    private var disk = Disk()
    private var lines: [Line]
    private var submissions = 0
    /// What the shards need of each topic, and which topics they need no longer.
    private var kept: [StoreID: SequenceNumber] = [:]
    private var purged: Set<StoreID> = []
    private var failures: StoreFailures
    private let searchesEarly: Bool
    private let chance: Chance

    init(_ plan: Plan, _ chance: Chance) {
        searchesEarly = plan.has(.times)
        lines = Array(repeating: Line(), count: plan.shards)
        failures = StoreFailures(plan, chance)
        self.chance = chance
    }

    var hasFailed: Bool { failures.hasFailed }
    func isAtRest(_ shard: Int) -> Bool {
        lines[shard].due.isEmpty && lines[shard].reads.isEmpty && lines[shard].searches.isEmpty
    }

    func take(_ requests: [StoreRequest], from shard: Int) {
        let writes = requests.filter { if case .read = $0 { false } else if case .search = $0 { false } else { true } }
        if !writes.isEmpty {
            submissions += 1
            lines[shard].unwritten.append(Submission(number: submissions, requests: writes))
        }
        for request in requests {
            switch request {
            case .keep, .publishers: break
            case .append(let messages):
                lines[shard].due.append(Due(submission: submissions, event: .append(messages)))
            case .end(_, let epoch, _), .delete(_, let epoch):
                lines[shard].due.append(Due(submission: submissions, event: .end(epoch: epoch)))
            case .purge(let id): purged.insert(id)
            case .read(let request): lines[shard].reads.append(request)
            case .search(let search):
                let isMade = searchesEarly && chance.isOne(in: 2)
                lines[shard].searches.append(Search(search: search, result: isMade ? .some(first(search)) : nil))
            case .trim(let id, let end): if exists(id) { kept[id] = Swift.max(end, kept(id)) }
            }
        }
    }

    /// Adds the memory of messages that are not written.
    func add(to tally: inout MemoryTally) {
        for due in lines.flatMap(\.due) {
            if case .append(let messages) = due.event { messages.add(to: &tally) }
        }
    }

    private func exists(_ id: StoreID) -> Bool { !purged.contains(id) && disk.messages[id] != nil }
    private func kept(_ id: StoreID) -> SequenceNumber { kept[id] ?? .first }

    /// The next response for the shard; nil for none in this turn.
    /// - Parameter isPartial: whether some responses may be held back.
    func next(_ shard: Int, _ memory: MemoryBudget, _ isPartial: Bool) -> Word? {
        if isAtRest(shard) || isPartial && chance.isOne(in: 2) { return nil }
        let (isIdle, isRead) = (lines[shard].due.isEmpty, lines[shard].reads.isEmpty)
        if !lines[shard].searches.isEmpty, chance.isOne(in: 2) || isIdle && isRead {
            let search = lines[shard].searches.remove(at: chance.below(lines[shard].searches.count))
            return .found(search.result ?? first(search.search), search.search)
        }
        if isIdle && isRead { return nil }
        if isRead || !isIdle && chance.isOne(in: 2) { return commit(shard, isPartial) }
        let request = lines[shard].reads.remove(at: chance.below(lines[shard].reads.count))
        return .answer(request, answer(request, memory, isPartial))
    }

    // Writing

    private func commit(_ shard: Int, _ isPartial: Bool) -> Word {
        let next = lines[shard].due[0]
        if next.submission != lines[shard].reported, let refusal = write(next.submission, shard, isPartial) {
            return refusal
        }
        lines[shard].reported = next.submission
        switch next.event {
        case .append(let messages):
            let end = report(messages, shard, isPartial)
            return .report(.committed(topic: messages.topic, attempt: messages.attempt, upTo: end))
        case .end(let epoch):
            lines[shard].due.removeFirst()
            return .report(.ended(topic: epoch))
        }
    }

    /// Writes everything up to this submission. Returns the reports if it is refused.
    private func write(_ number: Int, _ shard: Int, _ isPartial: Bool) -> Word? {
        while let next = lines[shard].unwritten.first, next.number < number {
            lines[shard].unwritten.removeFirst()
            // There is nothing to report about it.
            _ = write(next, shard, isPartial)
        }
        guard let next = lines[shard].unwritten.first, next.number == number else {
            // It was written, but the store failed before it could know.
            return failures.hasFailed ? refused(number, shard, .unknown, isEndWritten: false) : nil
        }
        lines[shard].unwritten.removeFirst()
        guard let (failure, isEndWritten) = write(next, shard, isPartial) else { return nil }
        return refused(number, shard, failure, isEndWritten: isEndWritten)
    }

    /// Returns why a submission was not written.
    private func write(
        _ submission: Submission, _ shard: Int, _ isPartial: Bool
    ) -> (failure: StoreFailure, isEndWritten: Bool)? {
        let wasOpen = !failures.hasFailed
        if wasOpen, disk.objects(to: submission.requests) { return (.aborted, disk.maintain(submission.requests)) }
        guard let failure = failures.next(isCalm: !isPartial) else {
            disk.write(submission.requests)
            return nil
        }
        if failure == .unknown {
            if wasOpen, failures.isWritten() { writeUnknown(submission, shard) }
            return (failure, false)
        }
        return (failure, failures.keepsMaintenance() && disk.maintain(submission.requests))
    }

    /// Writes a transaction whose outcome nobody knows: the submission, and perhaps those of other shards.
    private func writeUnknown(_ submission: Submission, _ shard: Int) {
        disk.write(submission.requests)
        for other in lines.indices where other != shard && chance.isOne(in: 2) {
            guard let next = lines[other].unwritten.first, !disk.objects(to: next.requests) else { continue }
            lines[other].unwritten.removeFirst()
            disk.write(next.requests)
        }
    }

    private func refused(_ number: Int, _ shard: Int, _ failure: StoreFailure, isEndWritten: Bool) -> Word {
        let due = lines[shard].due.prefix { $0.submission == number }
        lines[shard].due.removeFirst(due.count)
        return .refused(due.map { $0.report(failure, isEndWritten: isEndWritten) }, failure)
    }

    /// Reports the messages, or the first of them, as committed. Returns the end of these.
    private func report(_ next: AppendedMessages, _ shard: Int, _ isPartial: Bool) -> SequenceNumber {
        let length = next.end - next.first
        let part = isPartial && length > 1 && chance.isOne(in: 2) ? 1 + chance.below(length - 1) : length
        let end = next.first.advanced(by: part)
        if part < length {
            lines[shard].due[0].event = .append(next.after(end))
        } else {
            lines[shard].due.removeFirst()
        }
        return end
    }

    // Reading

    private func first(_ search: TimeSearch) -> SequenceNumber? {
        let kept = kept(search.id)
        guard exists(search.id) else { return nil }
        return disk.messages[search.id]?.filter { $0.key >= kept && $0.value.timestamp >= search.time }.keys.min()
    }

    private func answer(_ request: HistoryRequest, _ memory: MemoryBudget, _ isPartial: Bool) -> HistoryAnswer {
        guard exists(request.id), let stored = disk.messages[request.id], request.first >= kept(request.id) else {
            return .gone(before: exists(request.id) ? kept(request.id) : request.end)
        }
        if failures.hidesMessages(isCalm: !isPartial) {
            return .unreadable(before: request.first.advanced(by: 1 + chance.below(request.end - request.first)))
        }
        var messages: [StoredMessage] = []
        var bytes = 0
        let most = chance.pick([1, 5, 1000])
        for sequence in request.first.value..<request.end.value where messages.count < most && bytes < 64 << 10 {
            guard let message = stored[SequenceNumber(sequence)] else { break }
            messages.append(message)
            bytes += message.size
        }
        return .found(StoredMessages(first: request.first, messages, budget: memory))
    }

    // Restarting

    /// The broker ends, and the store is opened again. Returns the topics that it has.
    /// - Parameter isClean: whether everything is written. Otherwise, some of what is not written may be, in order.
    func reopen(isClean: Bool) -> [StoredTopic] {
        for shard in lines.indices {
            let count = isClean ? lines[shard].unwritten.count : chance.below(lines[shard].unwritten.count + 1)
            for submission in lines[shard].unwritten.prefix(failures.hasFailed ? 0 : count) {
                if !disk.objects(to: submission.requests) {
                    disk.write(submission.requests)
                } else {
                    _ = disk.maintain(submission.requests)
                }
            }
            lines[shard] = Line()
        }
        kept.removeAll()
        purged.removeAll()
        failures.recover()
        let topics = disk.reopen(isClean: isClean)
        for topic in topics { kept[topic.row.id] = topic.messages.lower }
        return topics
    }

    /// The payload of a stored message.
    func payload(_ sequence: SequenceNumber, of id: StoreID) -> [UInt8]? { disk.messages[id]?[sequence]?.payload }
}
