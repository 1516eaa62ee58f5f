// EntryForms: the forms in which a topic's messages are sent over HTTP, and the messages of a view in each of them.

import Bytes
import HTTP2
import Replay

/// The forms of messages.
enum EntryForm {
    /// Entries of gRPC's responses.
    case call
    /// The same for subscriptions to patterns: each message names its topic.
    case namedCall
    /// Records of a plain HTTP stream, without the parts that are specific to one subscription.
    case record(StreamFormat, epoch: UInt64)
    /// The same for subscriptions to patterns.
    case namedRecord(StreamFormat, epoch: UInt64)

    /// Whether messages name their topic.
    var isNamed: Bool {
        switch self {
        case .call, .record: false
        case .namedCall, .namedRecord: true
        }
    }

    /// The place among the forms that name the topic.
    fileprivate var place: Int {
        switch self {
        case .call, .namedCall: 0
        case .record(.eventStream, _), .namedRecord(.eventStream, _): 1
        case .record(.jsonLines, _), .namedRecord(.jsonLines, _): 2
        }
    }

    /// The most bytes that one byte of payload can take; the rest of a message takes little.
    static let most = 8
    /// Large messages in other forms may take 1/`share` of `memory`.
    static let share = 2

    /// Calls `body` with a record whose size is known.
    static func withRecord<Result>(
        _ format: StreamFormat, _ epoch: UInt64, _ sequence: SequenceNumber, _ entry: Chunk.Entry, of chunk: Chunk,
        topic: UnsafeRawBufferPointer, _ body: (borrowing StreamRecord) -> Result
    ) -> Result {
        func record(_ payload: UnsafeRawBufferPointer) -> Result {
            var message = StreamedMessage(
                epoch: epoch, sequence: sequence.value, timestamp: entry.timestamp, metadata: chunk.metadata(entry),
                payload: payload)
            message.topic = topic
            return body(StreamRecord(message, as: format))
        }
        let count = Int(entry.payload)
        guard Int(entry.framed) > PayloadFraming.header + count else {
            return record(chunk.bytes(Int(entry.offset) + PayloadFraming.header, count))
        }
        // A long payload is in several frames and must be assembled.
        var whole = ByteBuffer(minimumCapacity: count)
        chunk.forEachPayloadPart(entry) { whole.append($0) }
        return record(whole.readable)
    }
}

/// The runs of one view, in each form that is in use.
struct EntryCaches {
    private var calls = EntryCache()
    private var events = EntryCache()
    private var lines = EntryCache()
    /// The forms that name the topic. Empty until one is used, because most views have no subscriptions to patterns.
    private var named: [EntryCache] = []

    /// Calls `body` with the cache of a form. Unlike an accessor, this allocates nothing.
    @inline(__always)
    private mutating func with<Result>(_ form: EntryForm, _ body: (inout EntryCache) -> Result) -> Result {
        switch form {
        case .call: return body(&calls)
        case .record(.eventStream, _): return body(&events)
        case .record(.jsonLines, _): return body(&lines)
        case .namedCall, .namedRecord:
            makeNamed()
            return body(&named[form.place])
        }
    }

    /// The sum of a figure over all forms.
    private func total(_ figure: (borrowing EntryCache) -> Int) -> Int {
        figure(calls) + figure(events) + figure(lines) + named.reduce(0) { $0 + figure($1) }
    }

    private mutating func forEach(_ body: (inout EntryCache) -> Void) {
        body(&calls)
        body(&events)
        body(&lines)
        for place in named.indices { body(&named[place]) }
    }

    var memory: Int { total { $0.memory } }

    /// The run that holds `sequence`, which must be in `log`.
    /// - Parameter topic: the topic's name.
    mutating func run(
        for sequence: SequenceNumber, in log: Log, of topic: String, as form: EntryForm, _ pool: BlockPool
    ) -> EntryRun {
        with(form) {
            $0.run(for: sequence, in: log, of: topic, as: form, limit: EntryCache.limit(pool), budget: pool.budget)
        }
    }

    /// The known sizes of messages in a form.
    subscript(sizesAs form: EntryForm) -> EntrySizes {
        @inline(__always)
        _read {
            switch form {
            case .call: yield calls.sizes
            case .record(.eventStream, _): yield events.sizes
            case .record(.jsonLines, _): yield lines.sizes
            case .namedCall, .namedRecord: yield named.isEmpty ? EntrySizes() : named[form.place].sizes
            }
        }
        @inline(__always)
        _modify {
            switch form {
            case .call: yield &calls.sizes
            case .record(.eventStream, _): yield &events.sizes
            case .record(.jsonLines, _): yield &lines.sizes
            case .namedCall, .namedRecord:
                makeNamed()
                yield &named[form.place].sizes
            }
        }
    }

    private mutating func makeNamed() {
        if named.isEmpty { named = [EntryCache(), EntryCache(), EntryCache()] }
    }

    /// Bytes of all entries ever made.
    var made: Int { total { $0.made } }

    /// The run that already holds the message in that form.
    mutating func find(_ sequence: SequenceNumber, as form: EntryForm) -> EntryRun? { with(form) { $0.find(sequence) } }

    /// Removes runs of messages before `sequence`, which are no longer in the log.
    mutating func evict(before sequence: SequenceNumber) { forEach { $0.evict(before: sequence) } }

    mutating func removeAll() { forEach { $0.removeAll() } }

    /// Removes the runs that no connection refers to.
    mutating func removeUnused() { forEach { $0.removeUnused() } }

    func forEachRun(_ body: (EntryRun) -> Void) {
        for cache in [calls, events, lines] + named { cache.forEachRun(body) }
    }
}
