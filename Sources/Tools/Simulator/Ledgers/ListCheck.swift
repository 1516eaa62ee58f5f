// ListCheck: compares $SYS.subscriptions, $SYS.topics and $SYS.connections, while nothing happens, with the ledgers:
// exactly the same entries, and each value that a ledger knows too.

struct ListCheck {
    let plan: Plan
    let journal: Journal
    let referee: Referee
    let clients: [any VirtualClient]
    let subscribers: [SubscriberLedger]
    let channels: [ChannelLedger]
    let singles: [StreamLedger]
    /// The client that requested the lists, which changes its own statistics.
    let reader: any VirtualClient

    private static func name(_ client: any VirtualClient) -> String {
        "\(client.home.shard)-\(client.home.id.index)-\(client.home.id.generation)"
    }

    /// The rows by the fields that identify them; duplicates are faults.
    private func table(_ list: ListLedger, by names: [String]) -> [String: Row] {
        var table: [String: Row] = [:]
        for bytes in list.texts {
            guard let row = Row(bytes) else {
                referee.fail("\(list.name) sent an invalid row: \(String(decoding: bytes, as: UTF8.self))")
                return [:]
            }
            let key = names.map { row[$0] ?? "" }.joined(separator: "/")
            referee.expect(table[key] == nil, "\(list.name) contains \(key) twice")
            table[key] = row
        }
        return table
    }

    private func compare(_ row: Row?, _ name: String, _ expected: [(name: String, value: String)]) {
        guard let row else { return referee.fail("no list contains \(name)") }
        if let difference = row.difference(from: expected) {
            referee.fail("\(name) is listed incorrectly: \(difference)")
        }
    }

    // Subscriptions

    func check(subscriptions list: ListLedger) {
        var table = table(list, by: ["connection", "stream"])
        for ledger in subscribers where ledger.isAwaited {
            let row = table.removeValue(forKey: "\(ListCheck.name(ledger.client))/\(ledger.stream)")
            compare(row, ledger.name, figures(of: ledger))
        }
        referee.expect(table.isEmpty, "subscriptions are listed that do not exist: \(table.values)")
    }

    private func figures(of ledger: SubscriberLedger) -> [(name: String, value: String)] {
        if let ledger = ledger as? PatternLedger { return ledger.figures }
        guard let cursor = ledger.cursor, let topic = journal.topic(ledger.epoch) else {
            return [("delivered", "known, as it has joined")]
        }
        let (asked, left) = (ledger.asked, ledger.asked - ledger.received)
        let waiting = cursor.waiting.count
        let next = cursor.waiting.first ?? cursor.next
        let reason = waiting == 0 ? "nothing" : !ledger.isUnbounded && left == 0 ? "credit" : "socket"
        return [
            ("topic", ledger.request.topic), ("policy", ledger.request.policy), ("buffer", "\(ledger.request.buffer)"),
            ("meta", "\(ledger.request.hasMeta)"),
            ("requested", ledger.isUnbounded ? "unbounded" : "\(asked)"),
            ("outstanding", ledger.isUnbounded ? "unbounded" : "\(left)"),
            ("delivered", "\(ledger.received)"), ("dropped", "\(cursor.dropped)"), ("missed", "\(ledger.missed)"),
            ("waiting", "\(waiting)"), ("next", "\(next)"), ("waits_for", reason),
            ("lag", waiting == 0 ? "0" : "\(topic.end - next)"),
        ]
    }

    // Topics

    func check(topics list: ListLedger) {
        let table = table(list, by: ["name"])
        for (name, row) in table where !name.hasPrefix("$SYS.") {
            guard let topic = row["epoch"].flatMap({ UInt64($0) }).flatMap({ journal.topic($0) }) else {
                referee.fail("a topic is listed that does not exist: \(row.description)")
                return
            }
            let isStored = row["storage"] != "memory"
            compare(row, "'\(name)'", figures(of: topic, resident: isStored ? "resident_bytes" : "bytes"))
            if isStored { checkSize(row, topic) }
            checkSums(row, topic)
        }
        // A subscription that has not received all messages of a deleted topic still exists.
        for ledger in subscribers
        where ledger.isAwaited && ledger.endsWithTopic && !journal.deleted.contains(ledger.request.topic) {
            referee.expect(table[ledger.request.topic] != nil, "\(ledger.name) uses a topic that is not listed")
        }
        for ledger in channels where ledger.isAwaited {
            referee.expect(table[ledger.topic] != nil, "\(ledger.name) uses a topic that is not listed")
        }
    }

    /// - Parameter resident: the field with the size of messages in memory.
    private func figures(of topic: TopicLedger, resident: String) -> [(name: String, value: String)] {
        let forgotten = Swift.min(topic.forgotten, topic.end)
        let retained = Swift.min(UInt64(plan.limits.retain), topic.end - topic.kept)
        let first = Swift.max(topic.end - retained, forgotten)
        let bytes = (topic.head..<topic.end).reduce(0) { $0 + (topic.charges[$1] ?? 0) }
        let open = channels.filter { $0.isAwaited && $0.topic == topic.name }
        // If memory is short, the list itself may have caused history to be dropped after the topic's row was made.
        let kept = [("first", "\(first)"), ("retained", "\(topic.end - first)"), (resident, "\(bytes)")]
        return (plan.isMemoryShort ? [] : kept) + [
            ("name", topic.name), ("next", "\(topic.end)"), ("published", "\(topic.end - 1)"),
            ("publishers", "\(open.count)"),
            ("subscriptions", "\(subscribers.count { $0.isAwaited && $0.epoch == topic.epoch })"),
            ("retain", "\(plan.limits.retain)"), ("retain_bytes", "\(plan.limits.retainBytes)"),
        ]
    }

    /// The size of messages that only the store has is estimated.
    private func checkSize(_ row: Row, _ topic: TopicLedger) {
        guard !plan.isMemoryShort else { return }
        let resident = (topic.head..<topic.end).reduce(0) { $0 + (topic.charges[$1] ?? 0) }
        let bytes = row["bytes"].flatMap { Int($0) } ?? -1
        referee.expect(
            resident <= bytes && bytes <= topic.charges.values.reduce(0, +),
            "'\(topic.name)' is listed with \(bytes) bytes, but \(resident) are in memory")
    }

    /// Checks the totals delivered to and dropped for all subscriptions, including those that have left, except for
    /// their last moment.
    private func checkSums(_ row: Row, _ topic: TopicLedger) {
        let all = subscribers.filter { $0.epoch == topic.epoch && $0.cursor != nil }
        let (delivered, dropped) = (Int(row["delivered"] ?? "") ?? -1, Int(row["dropped"] ?? "") ?? -1)
        let patterns = subscribers.compactMap { $0 as? PatternLedger }.filter { $0.matches(topic) && $0.isFed }
        let matches = patterns.compactMap { $0.match(topic) }
        let handed =
            all.reduce(0) { $0 + Swift.max($1.handed, $1.received) }
            + matches.reduce(0) { $0 + Swift.max($1.handed, $1.received) }
        let lost = all.reduce(0) { $0 + ($1.cursor?.dropped ?? 0) } + matches.reduce(0) { $0 + $1.dropped }
        // Some subscriptions may have joined and left within one moment, or discarded messages that were on their way
        // to them.
        let isWhole = subscribers.allSatisfy {
            if $0.request.topic != topic.name { return true }
            if case .unknown? = $0.leaving { return false }
            return ($0.cursor != nil || !$0.isFed) && !($0.client.givesUp && ($0.isCancelled || $0.client.isOver))
        }
        // A pattern's cursors may have come and gone unobserved.
        let isWhollySeen = isWhole && patterns.allSatisfy { !$0.hasUnseen }
        let unseen = isWhollySeen ? all.reduce(0) { $0 + $1.unseen } : .max / 2
        referee.expect(
            handed <= delivered && delivered <= handed + unseen,
            "'\(topic.name)' is listed with \(delivered) messages delivered, but \(handed) were delivered")
        referee.expect(
            lost <= dropped && dropped <= lost + unseen,
            "'\(topic.name)' is listed with \(dropped) messages dropped, but \(lost) were dropped")
        let waiting = singles.count {
            let waits =
                ($0 as? AcknowledgedLedger)?.waits(for: topic.name) ?? ($0 as? NumberedLedger)?.waits(for: topic.name)
            return waits == true && $0.isAwaited
        }
        // For a channel without credit this is not known.
        let silent = channels.count { $0.isAwaited && $0.topic == topic.name && !$0.wasGranted }
        let parked = Int(row["parked"] ?? "") ?? -1
        referee.expect(
            waiting <= parked && parked <= waiting + silent,
            "'\(topic.name)' is listed with \(parked) parked publishes, but \(waiting) are parked")
        let unplaced = journal.messages.count {
            $0.strength == .fireAndForget && $0.topic == topic.name && $0.place == nil
        }
        let fireAndForget = Int(row["fire_and_forget_dropped"] ?? "") ?? -1
        referee.expect(
            fireAndForget >= 0 && fireAndForget <= unplaced,
            "'\(topic.name)' is listed with \(fireAndForget) fire-and-forget publishes refused, but \(unplaced) are "
                + "not in it")
    }

    // Connections

    func check(connections list: ListLedger) {
        var table = table(list, by: ["id"])
        for client in clients where !client.isOver {
            let row = table.removeValue(forKey: ListCheck.name(client))
            compare(row, "connection \(ListCheck.name(client))", figures(of: client))
            if let row { checkTargets(row, client) }
        }
        referee.expect(table.isEmpty, "connections are listed that do not exist: \(table.values)")
    }

    /// Checks the topics that the client's connection is listed as publishing to: at least those of its channels.
    private func checkTargets(_ row: Row, _ client: any VirtualClient) {
        let reported = Set((row["publishes_to"] ?? "").split(separator: ",").map(String.init))
        let topics = Set(channels.filter { $0.isAwaited && $0.client === client }.map(\.topic))
        let isWhole = row["publishes_to_more"] == "false"
        referee.expect(
            reported.count <= 8 && (!isWhole || topics.isSubset(of: reported)),
            "connection \(ListCheck.name(client)) publishes to \(topics), but \(reported) are listed: \(row)")
    }

    private func figures(of client: any VirtualClient) -> [(name: String, value: String)] {
        let streams: [StreamLedger] = subscribers + channels + singles
        var figures = [
            ("state", "attached"), ("shard", "\(client.home.shard)"),
            ("subscriptions", "\(subscribers.count { $0.isAwaited && $0.client === client })"),
            ("publishers", "\(channels.count { $0.isAwaited && $0.client === client })"),
        ]
        guard client !== reader else { return figures }
        figures += [
            ("streams", "\(streams.count { $0.isAwaited && $0.client === client })"), ("output", "0"), ("control", "0"),
        ]
        if let session = client.session {
            figures.append(("unacknowledged", "\(session.unacknowledged)"))
        } else {
            figures += [("bytes_in", "\(client.wire.read)"), ("bytes_out", "\(client.wire.written)")]
        }
        return figures
    }
}
