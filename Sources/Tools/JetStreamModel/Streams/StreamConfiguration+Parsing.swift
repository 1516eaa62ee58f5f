// Reads the configuration of a stream from a request.

import JSONParsing

extension StreamConfiguration {
    /// - Throws: if a member has the wrong type or is unknown, as the server does, or is not modelled.
    init(_ root: JSONValue) throws(APIError) {
        let fields = RequestFields(root, type: "StreamConfigRequest")
        try fields.requireKnown(StreamConfiguration.members)
        for name in root.names ?? [] where StreamConfiguration.notModelled.contains(name) {
            // An update repeats what an answer said.
            guard let usual = StreamConfiguration.usual[name], root[name]?.text == usual else {
                throw .configuration("the model of JetStream does not support \(name)")
            }
        }
        name = try fields.string("name") ?? ""
        subjects = try fields.strings("subjects") ?? []
        maxMessages = try fields.integer("max_msgs") ?? -1
        maxBytes = try fields.integer("max_bytes") ?? -1
        maxAge = try fields.integer("max_age", "time.Duration") ?? 0
        maxMessagesPerSubject = try fields.integer("max_msgs_per_subject") ?? -1
        maxMessageSize = try fields.integer("max_msg_size", "int32") ?? -1
        discardsNew = try fields.choice("discard", ["old", "new"]) == "new"
        isInMemory = try fields.choice("storage", ["file", "memory"]) == "memory"
        _ = try fields.choice("retention", ["limits"])
        replicas = try fields.integer("num_replicas", "int") ?? 0
        duplicateWindow = try fields.integer("duplicate_window", "time.Duration") ?? 0
        allowsDirect = try fields.flag("allow_direct") ?? false
        isSealed = try fields.flag("sealed") ?? false
        deniesDelete = try fields.flag("deny_delete") ?? false
        deniesPurge = try fields.flag("deny_purge") ?? false
        if let value = root["republish"], value.isObject {
            let fields = RequestFields(value, type: "RePublish")
            var republish = Republish()
            republish.source = try fields.string("src") ?? ""
            if republish.source.isEmpty { republish.source = ">" }
            republish.destination = try fields.string("dest") ?? ""
            republish.isHeadersOnly = try fields.flag("headers_only") ?? false
            self.republish = republish
        }
        if let value = root["metadata"], value.isObject {
            let fields = RequestFields(value, type: "StreamConfigRequest")
            for name in value.names ?? [] { metadata[name] = try fields.string(name) }
        }
        for name in metadata.keys where ["_nats.level", "_nats.req.level", "_nats.ver"].contains(name) {
            metadata[name] = nil
        }
        complete()
    }

    private static let members: Set<String> = notModelled.union([
        "name", "subjects", "retention", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "max_msg_size",
        "discard", "storage", "num_replicas", "duplicate_window", "republish", "allow_direct", "sealed", "deny_delete",
        "deny_purge", "metadata",
    ])

    /// The values of these members in answers, as JSON.
    static let usual = [
        "max_consumers": "-1", "compression": "\"none\"", "mirror_direct": "false", "allow_rollup_hdrs": "false",
        "consumer_limits": "{}", "allow_msg_ttl": "false",
    ]

    private static let notModelled: Set<String> = [
        "description", "max_consumers", "discard_new_per_subject", "no_ack", "placement", "mirror", "sources",
        "compression",
        "first_seq", "subject_transform", "mirror_direct", "allow_rollup_hdrs", "consumer_limits", "allow_msg_ttl",
        "subject_delete_marker_ttl", "allow_msg_counter", "allow_atomic", "allow_msg_schedules", "persist_mode",
        "allow_batched", "template_owner", "pedantic",
    ]
}

/// The members of an object in a request, with the errors of Go's decoder.
struct RequestFields {
    private let object: JSONValue
    private let type: String

    init(_ object: JSONValue, type: String) {
        self.object = object
        self.type = type
    }

    func requireKnown(_ known: Set<String>) throws(APIError) {
        for name in object.names ?? [] where !known.contains(name) {
            throw .json("json: unknown field \"\(name)\"")
        }
    }

    func string(_ name: String) throws(APIError) -> String? {
        guard let value = present(name) else { return nil }
        guard let text = value.string else { throw mismatch(name, value, "string") }
        return text
    }

    func strings(_ name: String) throws(APIError) -> [String]? {
        guard let value = present(name) else { return nil }
        guard let texts = value.strings else { throw mismatch(name, value, "[]string") }
        return texts
    }

    func integer(_ name: String, _ kind: String = "int64") throws(APIError) -> Int? {
        guard let value = present(name) else { return nil }
        guard let number = value.integer else { throw mismatch(name, value, kind) }
        return number
    }

    /// A sequence. 0 if there is none.
    func sequence(_ name: String) throws(APIError) -> UInt64 {
        guard let value = present(name) else { return 0 }
        guard let number = value.integer.flatMap({ UInt64(exactly: $0) }) else { throw mismatch(name, value, "uint64") }
        return number
    }

    func flag(_ name: String) throws(APIError) -> Bool? {
        guard let value = present(name) else { return nil }
        guard value.isBoolean else { throw mismatch(name, value, "bool") }
        return value.isTrue
    }

    func choice(_ name: String, _ choices: [String]) throws(APIError) -> String? {
        guard let text = try string(name) else { return nil }
        guard choices.contains(text) else {
            throw .json("can not unmarshal \(JSONWriter.quoted(JSONWriter.quoted(text)))")
        }
        return text
    }

    /// A member that is not null.
    private func present(_ name: String) -> JSONValue? {
        guard let value = object[name] else { return nil }
        let isNull =
            !value.isObject && !value.isBoolean && value.string == nil && value.number == nil && value.elements == nil
        return isNull ? nil : value
    }

    private func mismatch(_ name: String, _ value: JSONValue, _ kind: String) -> APIError {
        let found: String
        if value.string != nil {
            found = "string"
        } else if let integer = value.integer {
            found = "number \(integer)"
        } else if value.number != nil {
            found = "number"
        } else {
            found = value.isBoolean ? "bool" : value.isObject ? "object" : "array"
        }
        return .json("json: cannot unmarshal \(found) into Go struct field \(type).\(name) of type \(kind)")
    }
}
