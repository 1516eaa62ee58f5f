// The JetStream API: requests to `$JS.API.>` and their answers.

import Bytes
import JSONParsing

extension ModelCluster {
    /// Answers a request. Returns whether something listens at its subject.
    func answer(_ message: Publication, _ tokens: [String]) -> Bool {
        if tokens == ["$JS", "API", "INFO"] {
            answerInfo(message)
            return true
        }
        guard tokens.count > 3, !tokens.contains("") else { return true }
        let call = tokens[2..<tokens.count].joined(separator: ".")
        let isUnavailable = !isJetStreamAvailable || fails(\.unavailable, \.unavailable)
        if tokens[2] == "DIRECT" { return tokens[3] == "GET" && !isUnavailable && getDirectly(message, tokens) }
        let operations: [(prefix: String, type: String, rest: String)] = [
            ("STREAM.CREATE", "stream_create", ""), ("STREAM.UPDATE", "stream_update", ""),
            ("STREAM.DELETE", "stream_delete", ""), ("STREAM.PURGE", "stream_purge", ",\"purged\":0"),
            ("STREAM.INFO", "stream_info", ",\"total\":0,\"offset\":0,\"limit\":0"),
            ("STREAM.NAMES", "stream_names", ",\"total\":0,\"offset\":0,\"limit\":0,\"streams\":null"),
            ("STREAM.LIST", "stream_list", ",\"total\":0,\"offset\":0,\"limit\":0,\"streams\":[]"),
            ("STREAM.MSG.GET", "stream_msg_get", ""), ("STREAM.MSG.DELETE", "stream_msg_delete", ""),
        ]
        guard
            let operation = operations.first(where: {
                ModelCluster.isOfAll($0.prefix) ? call == $0.prefix : call.hasPrefix($0.prefix + ".")
            })
        else { return true }
        let names = Array(tokens[(2 + Subjects.tokens(operation.prefix).count)...])
        guard names.count == (ModelCluster.isOfAll(operation.prefix) ? 0 : 1) else { return true }
        let name = names.first ?? ""
        if isSilent(operation.prefix, name) { return true }
        var text = "{\"type\":\"io.nats.jetstream.api.v1.\(operation.type)_response\""
        do throws(APIError) {
            guard !isUnavailable, !isLeaderless(operation.prefix, name) else { throw .unavailable }
            let inner = try carryOut(operation.prefix, name, message).object.dropFirst().dropLast()
            text += inner.isEmpty ? "}" : ",\(inner)}"
        } catch {
            text += ",\"error\":\(error.json)\(operation.rest)}"
        }
        reply(to: message, headers: nil, Array(text.utf8), term: streams[name]?.term ?? 0)
        return true
    }

    /// Whether a call is about all streams.
    private static func isOfAll(_ call: String) -> Bool { call == "STREAM.NAMES" || call == "STREAM.LIST" }

    /// Only what shows that JetStream works.
    private func answerInfo(_ message: Publication) {
        let isUnavailable = !isJetStreamAvailable || fails(\.unavailable, \.unavailable)
        let result = isUnavailable ? "\"error\":\(APIError.unavailable.json)" : "\"streams\":\(streams.count)"
        let type = "io.nats.jetstream.api.v1.account_info_response"
        reply(to: message, headers: nil, Array("{\"type\":\"\(type)\",\(result)}".utf8), term: 0)
    }

    /// Whether a request goes to the leader of a stream, and it does not answer.
    private func isSilent(_ call: String, _ name: String) -> Bool {
        guard !ModelCluster.isOfAll(call), call != "STREAM.CREATE", let stream = streams[name] else { return false }
        return now < stream.silentUntil
    }

    private func isLeaderless(_ call: String, _ name: String) -> Bool {
        guard !ModelCluster.isOfAll(call), call != "STREAM.CREATE", let stream = streams[name] else { return false }
        return now < stream.leaderlessUntil
    }

    func reply(to message: Publication, headers: [UInt8]?, _ payload: [UInt8], term: UInt64) {
        guard let reply = message.reply, !fails(\.lostAnswers, \.lostAnswers) else { return }
        route(
            Publication(subject: reply, reply: nil, headers: headers, payload: payload), from: nil, .answer, term: term)
    }

    private func carryOut(_ call: String, _ name: String, _ message: Publication) throws(APIError) -> JSONWriter {
        switch call {
        case "STREAM.CREATE": return try createStream(name, message)
        case "STREAM.UPDATE": return try updateStream(name, message)
        case "STREAM.NAMES": return try listNames(message)
        case "STREAM.LIST": return try listStreams(message)
        default: break
        }
        let request = try ModelCluster.parse(message.payload)
        guard let stream = streams[name] else { throw .noStream }
        var writer = JSONWriter()
        switch call {
        case "STREAM.INFO": return try describe(stream, for: request)
        case "STREAM.DELETE":
            streams[name] = nil
            writer.put("success", true)
        case "STREAM.PURGE":
            guard !stream.configuration.isSealed else { throw .sealed }
            guard !stream.configuration.deniesPurge else { throw .purgeDenied }
            writer.put("success", true)
            writer.put("purged", stream.messages.count)
            stream.removeAll()
        case "STREAM.MSG.DELETE": try deleteMessage(request, from: stream, into: &writer)
        default: try getMessage(request, from: stream, into: &writer)
        }
        return writer
    }

    /// The object of a request; nil if it is empty.
    static func parse(_ payload: [UInt8]) throws(APIError) -> JSONDocument? {
        guard !payload.isEmpty else { return nil }
        guard let document = payload.withUnsafeBytes({ JSONDocument($0) }) else { throw .json("unexpected EOF") }
        return document.root.names?.isEmpty == true ? nil : document
    }

    // MARK: Streams

    private func createStream(_ name: String, _ message: Publication) throws(APIError) -> JSONWriter {
        guard let request = try ModelCluster.parse(message.payload) else { throw .nameMismatch }
        let configuration = try StreamConfiguration(request.root)
        guard configuration.name == name else { throw .nameMismatch }
        try configuration.check(servers: options.servers)
        guard !configuration.isSealed else {
            throw .configuration("stream configuration for create can not be sealed")
        }
        if let existing = streams[name] {
            guard existing.configuration == configuration else { throw .nameInUse }
            return answer(about: existing, isCreated: true)
        }
        try checkOverlap(configuration)
        let stream = Stream(configuration, created: wallTime(of: nil))
        stream.clockOffset = clockOffset()
        stream.leaderlessUntil = now.addingClamped(chance.time(upTo: faults.creationTime))
        streams[name] = stream
        return answer(about: stream, isCreated: true)
    }

    private func updateStream(_ name: String, _ message: Publication) throws(APIError) -> JSONWriter {
        guard let request = try ModelCluster.parse(message.payload) else { throw .nameMismatch }
        var configuration = try StreamConfiguration(request.root)
        guard configuration.name == name else { throw .nameMismatch }
        guard let stream = streams[name] else { throw .noStream }
        try configuration.check(servers: options.servers)
        try configuration.update(from: stream.configuration)
        try checkOverlap(configuration)
        stream.configuration = configuration
        stream.applyLimits(now: wallTime(of: stream))
        return answer(about: stream, isCreated: false)
    }

    private func checkOverlap(_ configuration: StreamConfiguration) throws(APIError) {
        for (name, stream) in streams where name != configuration.name {
            for subject in configuration.subjects.map(Subjects.tokens)
            where stream.filters.contains(where: { Subjects.overlap($0, subject) }) {
                throw .overlap
            }
        }
    }

    private func listNames(_ message: Publication) throws(APIError) -> JSONWriter {
        try page(message, type: "JSApiStreamNamesRequest", limit: 1_024) { $0.put("streams", $1) }
    }

    /// Streams whose leaders do not answer are missing.
    private func listStreams(_ message: Publication) throws(APIError) -> JSONWriter {
        try page(message, type: "JSApiStreamListRequest", limit: 256) { writer, names in
            let isSilent = { (name: String) in self.isSilent("", name) || self.isLeaderless("", name) }
            let objects = names.filter { !isSilent($0) }.compactMap { self.streams[$0] }.map { self.summary(of: $0) }
            writer.put("streams", raw: "[\(objects.joined(separator: ","))]")
            let missing = names.filter(isSilent)
            if !missing.isEmpty { writer.put("missing", missing) }
        }
    }

    private func page(
        _ message: Publication, type: String, limit: Int, _ put: (inout JSONWriter, [String]) -> Void
    ) throws(APIError) -> JSONWriter {
        var names = streamNames
        var offset = 0
        if let request = try ModelCluster.parse(message.payload) {
            let fields = RequestFields(request.root, type: type)
            try fields.requireKnown(["offset", "subject"])
            offset = max(0, try fields.integer("offset", "int") ?? 0)
            if let subject = try fields.string("subject"), !subject.isEmpty {
                let tokens = Subjects.tokens(subject)
                names = names.filter { streams[$0]?.filters.contains { Subjects.overlap($0, tokens) } == true }
            }
        }
        offset = min(offset, names.count)
        var writer = JSONWriter()
        writer.put("total", names.count)
        writer.put("offset", offset)
        writer.put("limit", limit)
        put(&writer, Array(names[offset...].prefix(limit)))
        return writer
    }
}
