// What a stream checks before it takes a message: in one order with a single replica, in another with several.

/// Why a message is not stored.
enum Refusal: Error {
    case error(APIError)
    /// A message with this id was stored before.
    case duplicate(UInt64)
}

extension Stream {
    private static let maxHeaders = 65_535

    /// Checks a message that arrives at the leader.
    func check(_ message: Publication, now: Int64) throws(Refusal) {
        guard !configuration.isSealed else { throw .error(.sealed) }
        if isReplicated {
            try checkSize(message)
            try checkStream(message)
            try checkID(message, now: now)
            try checkLast(message)
            try checkLastOfSubject(message)
        } else {
            try checkStream(message)
            try checkLastOfSubject(message)
            try checkLast(message)
            try checkID(message, now: now)
            try checkLastID(message)
            try checkSize(message)
        }
        try checkRoom(message)
    }

    private func checkSize(_ message: Publication) throws(Refusal) {
        let size = (message.headers?.count ?? 0) + message.payload.count
        let limit = configuration.maxMessageSize
        guard limit < 0 || size <= limit else { throw .error(.tooLarge) }
        guard (message.headers?.count ?? 0) <= Stream.maxHeaders else { throw .error(.headersTooLarge) }
    }

    private func checkStream(_ message: Publication) throws(Refusal) {
        let expected = HeaderBlock.value("Nats-Expected-Stream", in: message.headers) ?? ""
        guard expected.isEmpty || expected == configuration.name else { throw .error(.otherStream) }
    }

    private func checkID(_ message: Publication, now: Int64) throws(Refusal) {
        guard let id = HeaderBlock.value("Nats-Msg-Id", in: message.headers), !id.isEmpty else { return }
        if let sequence = sequence(ofID: id, now: now) { throw .duplicate(sequence) }
        let isProposed = proposals.contains { HeaderBlock.value("Nats-Msg-Id", in: $0.message.headers) == id }
        guard !isProposed else { throw .error(.inProcess) }
    }

    private func checkLast(_ message: Publication) throws(Refusal) {
        guard let text = HeaderBlock.value("Nats-Expected-Last-Sequence", in: message.headers) else { return }
        let last = lastSequence + UInt64(proposals.count)
        guard UInt64(text) == last else { throw .error(.last(last)) }
    }

    private func checkLastOfSubject(_ message: Publication) throws(Refusal) {
        guard let text = HeaderBlock.value("Nats-Expected-Last-Subject-Sequence", in: message.headers) else { return }
        let isProposed = proposals.contains { $0.message.subject == message.subject }
        guard !isProposed else { throw .error(.subjectInProcess) }
        let last = messages.last { $0.subject == message.subject }?.sequence ?? 0
        guard UInt64(text) == last else { throw .error(.last(last)) }
    }

    /// With several replicas, this is checked when the message is committed.
    func checkLastID(_ message: Publication) throws(Refusal) {
        let expected = HeaderBlock.value("Nats-Expected-Last-Msg-Id", in: message.headers) ?? ""
        guard expected.isEmpty || expected == lastID else { throw .error(.lastID(lastID)) }
    }

    private func checkRoom(_ message: Publication) throws(Refusal) {
        guard configuration.discardsNew else { return }
        guard configuration.maxMessages < 0 || messages.count + proposals.count < configuration.maxMessages else {
            throw .error(.fullOfMessages)
        }
        func size(_ message: Publication) -> Int {
            self.size(
                StoredMessage(
                    sequence: 0, subject: message.subject, headers: message.headers, payload: message.payload, time: 0))
        }
        let proposed = proposals.reduce(0) { $0 + size($1.message) }
        guard configuration.maxBytes < 0 || bytes + proposed + size(message) <= configuration.maxBytes else {
            throw .error(.fullOfBytes)
        }
    }
}
