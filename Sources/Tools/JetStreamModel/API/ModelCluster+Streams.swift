// What the API says about streams and their messages.

import Bytes
import JSONParsing

extension ModelCluster {
    func answer(about stream: Stream, isCreated: Bool) -> JSONWriter {
        var writer = JSONWriter()
        put(stream, subjects: nil, into: &writer)
        if isCreated { writer.put("did_create", true) }
        return writer
    }

    /// A stream as an entry of the list of all.
    func summary(of stream: Stream) -> String {
        var writer = JSONWriter()
        put(stream, subjects: nil, into: &writer, isListed: true)
        return writer.object
    }

    func describe(_ stream: Stream, for request: JSONDocument?) throws(APIError) -> JSONWriter {
        var subjects: [String: Int]?
        if let request {
            let fields = RequestFields(request.root, type: "JSApiStreamInfoRequest")
            try fields.requireKnown(["offset", "deleted_details", "subjects_filter"])
            if let filter = try fields.string("subjects_filter"), !filter.isEmpty {
                let tokens = Subjects.tokens(filter)
                subjects = [:]
                for message in stream.messages where Subjects.matches(tokens, Subjects.tokens(message.subject)) {
                    subjects?[message.subject, default: 0] += 1
                }
            }
        }
        var writer = JSONWriter()
        writer.put("total", subjects?.count ?? 0)
        writer.put("offset", 0)
        writer.put("limit", subjects == nil ? 0 : 100_000)
        put(stream, subjects: subjects, into: &writer, isInfo: true)
        return writer
    }

    private func put(
        _ stream: Stream, subjects: [String: Int]?, into writer: inout JSONWriter, isInfo: Bool = false,
        isListed: Bool = false
    ) {
        writer.put("config", raw: stream.configuration.json(isListed: isListed))
        writer.put("created", Timestamp.text(stream.created))
        writer.put("state", raw: state(of: stream, subjects))
        if isInfo || options.servers > 1 { writer.put("cluster", raw: cluster(of: stream)) }
        writer.put("ts", Timestamp.text(wallTime(of: stream)))
    }

    private func state(of stream: Stream, _ subjects: [String: Int]?) -> String {
        var writer = JSONWriter()
        writer.put("messages", stream.messages.count)
        writer.put("bytes", stream.bytes)
        writer.put("first_seq", stream.firstSequence)
        writer.put("first_ts", stream.messages.first.map { Timestamp.text($0.time) } ?? Timestamp.none)
        writer.put("last_seq", stream.lastSequence)
        writer.put("last_ts", stream.lastTime.map(Timestamp.text) ?? Timestamp.none)
        let distinct = Set(stream.messages.map(\.subject)).count
        if distinct > 0 { writer.put("num_subjects", distinct) }
        if let subjects {
            var inner = JSONWriter()
            for (subject, count) in subjects.sorted(by: { $0.key < $1.key }) { inner.put(subject, count) }
            writer.put("subjects", raw: inner.object)
        }
        let span = stream.messages.isEmpty ? 0 : stream.lastSequence - stream.firstSequence + 1
        let deleted = span - min(span, UInt64(stream.messages.count))
        if deleted > 0 { writer.put("num_deleted", deleted) }
        writer.put("consumer_count", 0)
        return writer.object
    }

    private func cluster(of stream: Stream) -> String {
        var writer = JSONWriter()
        if options.servers > 1 { writer.put("name", "C") }
        let leader = stream.term % UInt64(max(1, stream.configuration.replicas)) + 1
        if now >= stream.leaderlessUntil { writer.put("leader", "n\(leader)") }
        guard stream.isReplicated else { return writer.object }
        var replicas: [String] = []
        for number in 1...UInt64(stream.configuration.replicas) where number != leader {
            var replica = JSONWriter()
            replica.put("name", "n\(number)")
            replica.put("current", stream.missing.isEmpty)
            replica.put("active", 0)
            replicas.append(replica.object)
        }
        writer.put("replicas", raw: "[\(replicas.joined(separator: ","))]")
        return writer.object
    }

    // MARK: Messages

    /// `STREAM.MSG.GET`, which the leader answers.
    func getMessage(_ request: JSONDocument?, from stream: Stream, into writer: inout JSONWriter) throws(APIError) {
        guard let request else { throw .badRequest }
        let query = try GetRequest(request.root)
        guard query.isValid, query.batch == 0, query.maxBytes == 0 else { throw .badRequest }
        let message: StoredMessage?
        if let next = query.next {
            message = stream.next(from: query.sequence, filter: Subjects.tokens(next))
        } else if let last = query.last {
            message = stream.last(Subjects.tokens(last))
        } else {
            message = stream[query.sequence]
        }
        guard let message else { throw .noMessage }
        var inner = JSONWriter()
        inner.put("subject", message.subject)
        inner.put("seq", message.sequence)
        if let headers = message.headers, !headers.isEmpty, !query.leavesOutHeaders {
            inner.put("hdrs", headers.withUnsafeBytes { Base64.encode($0) })
        }
        if !message.payload.isEmpty { inner.put("data", message.payload.withUnsafeBytes { Base64.encode($0) }) }
        inner.put("time", Timestamp.text(message.time))
        writer.put("message", raw: inner.object)
    }

    func deleteMessage(_ request: JSONDocument?, from stream: Stream, into writer: inout JSONWriter) throws(APIError) {
        guard let request else { throw .badRequest }
        let fields = RequestFields(request.root, type: "JSApiMsgDeleteRequest")
        try fields.requireKnown(["seq", "no_erase"])
        guard !stream.configuration.isSealed else { throw .sealed }
        guard !stream.configuration.deniesDelete else { throw .deleteDenied }
        guard stream.remove(try fields.sequence("seq")) else { throw .noSequence }
        writer.put("success", true)
    }
}

/// What `STREAM.MSG.GET` and `DIRECT.GET` ask for.
struct GetRequest {
    var sequence: UInt64 = 0
    var last: String?
    var next: String?
    var batch = 0
    var maxBytes = 0
    var leavesOutHeaders = false

    /// The last message with a subject.
    init(last: String) { self.last = last }

    init(_ root: JSONValue) throws(APIError) {
        let fields = RequestFields(root, type: "JSApiMsgGetRequest")
        try fields.requireKnown(["seq", "last_by_subj", "next_by_subj", "batch", "max_bytes", "no_hdr"])
        sequence = try fields.sequence("seq")
        last = try fields.string("last_by_subj").flatMap { $0.isEmpty ? nil : $0 }
        next = try fields.string("next_by_subj").flatMap { $0.isEmpty ? nil : $0 }
        batch = try fields.integer("batch", "int") ?? 0
        maxBytes = try fields.integer("max_bytes", "int") ?? 0
        leavesOutHeaders = try fields.flag("no_hdr") ?? false
    }

    var isEmpty: Bool { sequence == 0 && last == nil && next == nil }
    /// Whether at most one of them says where to begin.
    var isValid: Bool { !isEmpty && (sequence == 0 || last == nil) && (last == nil || next == nil) }
}
