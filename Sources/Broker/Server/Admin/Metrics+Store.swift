// Metrics+Store: the metric families of the store. Without a store, they have no samples.

import Core

extension Metrics {
    static func addStore(_ broker: BrokerStatistics, _ store: StoreSnapshot?, to out: inout Exposition) {
        func gauge(_ name: String, _ help: String, _ value: (StoreSnapshot) -> some BinaryInteger) {
            out.family("forebay_store_\(name)", .gauge, help)
            if let store { out.sample([:], value(store)) }
        }
        func counter(_ name: String, _ help: String, _ value: (StoreSnapshot) -> UInt64) {
            out.family("forebay_store_\(name)_total", .counter, help)
            if let store { out.sample([:], value(store)) }
        }
        gauge("failed", "1 if the store has failed and takes no messages until a restart, otherwise 0.") {
            $0.hasFailed ? 1 : 0
        }
        gauge("bytes", "Size of the store, without free pages.") { $0.used }
        gauge("limit_bytes", "Limit on the size of the store.") { $0.limit }
        gauge("uncommitted_bytes", "Bytes of messages that the store has not written yet.") { $0.uncommitted }
        gauge("uncommitted_limit_bytes", "Limit on bytes of messages that the store has not written yet.") {
            $0.uncommittedLimit
        }
        out.family("forebay_store_topics", .gauge, "Topics whose messages are stored, by kind of storage.")
        if store != nil {
            out.sample(["storage": TopicStorage.durable.name], broker.topicSums.durable)
            out.sample(["storage": TopicStorage.relaxed.name], broker.topicSums.relaxed)
        }
        gauge("publishers_blocked", "Publishers waiting because the store has not written earlier messages.") { _ in
            broker.topicSums.waitingForStore
        }
        out.family(
            "forebay_store_commit_seconds", .histogram, "Duration of commits with their sync, including failed ones.")
        if let store { add(store.latencies, scale: 1e9, to: &out) }
        out.family("forebay_store_commit_bytes", .histogram, "Bytes of messages written by a commit.")
        if let store { add(store.sizes, scale: 1, to: &out) }
        counter("batches", "Batches of messages written.") { $0.batches }
        counter("written_bytes", "Bytes of messages written.") { $0.sizes.sum }
        counter("reads", "Reads of stored messages that are not in memory.") { $0.reads }
        counter("read_messages", "Messages read from the store.") { $0.readMessages }
        counter("read_bytes", "Bytes of messages read from the store.") { $0.readBytes }
        out.family(
            "forebay_store_errors_total", .counter,
            "Commits that failed (full, aborted, failed) and reads of unreadable messages, by kind.")
        for (kind, count) in store?.errors ?? [] { out.sample(["kind": kind], count) }
    }

    private static func add(_ histogram: HistogramSnapshot, scale: Double, to out: inout Exposition) {
        var count: UInt64 = 0
        for (bound, values) in zip(histogram.bounds, histogram.counts) {
            count &+= values
            out.sample(["le": scale == 1 ? "\(bound)" : "\(Double(bound) / scale)"], suffix: "_bucket", count)
        }
        count &+= histogram.counts.last ?? 0
        out.sample(["le": "+Inf"], suffix: "_bucket", count)
        if scale == 1 {
            out.sample(suffix: "_sum", histogram.sum)
        } else {
            out.sample(suffix: "_sum", number: Double(histogram.sum) / scale)
        }
        out.sample(suffix: "_count", count)
    }

    /// Families of the topics among `topics` that are stored.
    static func addStored(_ topics: [TopicStatistics], to out: inout Exposition) {
        func family(_ name: String, _ help: String, _ value: (TopicStatistics) -> Int) {
            out.family("forebay_topic_\(name)", .gauge, help)
            for topic in topics where topic.storage.isStored { out.sample(["topic": topic.name], value(topic)) }
        }
        family("stored_bytes", "Bytes of the topic's messages in memory and in the store; absent if not stored.") {
            $0.bytes
        }
        family("uncommitted_bytes", "Bytes of messages that the store has not written yet; absent if not stored.") {
            $0.storage.uncommittedBytes
        }
    }
}
