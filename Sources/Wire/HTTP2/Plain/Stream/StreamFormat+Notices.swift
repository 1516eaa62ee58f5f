// StreamFormat+Notices: a stream's opening, keepalives, losses and end. None of them uses credit.

import Bytes
import ForebayWire

/// Messages missing at a stream's end or before a message.
public struct StreamLoss: Sendable {
    /// How many messages the subscription lost after the last one written.
    public var dropped: UInt64
    /// Whether no message was written and the stream did not resume where the client asked: see
    /// `StreamedMessage.restarts`.
    public var restarts: Bool

    public init(dropped: UInt64 = 0, restarts: Bool = false) {
        self.dropped = dropped
        self.restarts = restarts
    }

    fileprivate var members: String { "\"dropped\":\(dropped)\(restarts ? ",\"restarted\":true" : "")" }
}

extension StreamFormat {
    /// Appends the first bytes of the body. An EventSource cannot read headers, so it receives its subscription id
    /// here.
    ///
    /// - Parameters:
    ///   - position: where the subscription begins; nil if the client did not ask for it.
    ///   - resumesThere: whether an EventSource that is cut off before its first message resumes at that position.
    ///     Otherwise it repeats its request, because only the first message reports what is missing before it.
    ///   - retry: milliseconds after which an EventSource reconnects.
    public func appendOpening(
        _ id: SubscriptionID, at position: OpeningPosition? = nil, resumesThere: Bool = true, retry: Int = 1000,
        into out: inout ByteBuffer
    ) {
        let members = position.map { "\"epoch\":\"\($0.epoch)\",\"next\":\($0.next)" }
        guard self == .eventStream else {
            if let members { out.append("{\(members)}\n") }
            return
        }
        out.append("retry: \(retry)\n")
        // An EventSource that is cut off before its first message sends this id back.
        if resumesThere, let position {
            out.append("id: \(EventID(epoch: position.epoch, sequence: position.next - 1).text)\n")
        }
        out.append("event: subscribed\ndata: {\"subscription\":\"\(id.text)\"\(members.map { "," + $0 } ?? "")}\n\n")
    }

    /// Appends a keepalive, for proxies and to detect dead clients. Returns whether this format has one. JSON lines
    /// have none: a blank line, or an object that is not a message, would confuse many readers.
    @discardableResult
    public func appendHeartbeat(into out: inout ByteBuffer) -> Bool {
        guard self == .eventStream else { return false }
        out.append(": heartbeat\n\n")
        return true
    }

    /// Where in a message's record to insert a loss; the record must have been written without one.
    ///
    /// - Parameter topic: the length of the topic's name, if the record contains it; otherwise 0.
    /// - Returns: the number of bytes from the record's beginning.
    public func placeOfLoss(epoch: UInt64, sequence: UInt64, timestamp: Int64, topic: Int = 0) -> Int {
        switch self {
        case .eventStream:
            topic == 0
                ? 0 : StreamRecord.topicSize(topic, epoch: epoch, sequence: sequence, timestamp: timestamp)
        case .jsonLines:
            StreamRecord.jsonHead + RawWriter.digits(sequence) + RawWriter.digits(epoch) + RawWriter.digits(timestamp)
        }
    }

    /// Appends what a subscription lost just before a message: a separate event, or members of the message's object.
    public func append(_ loss: StreamLoss, into out: inout ByteBuffer) {
        switch self {
        case .eventStream:
            out.append("event: gap\ndata: {\(loss.members)}\n\n")
        case .jsonLines:
            if loss.dropped > 0 { out.append(",\"dropped\":\(loss.dropped)") }
            if loss.restarts { out.append(",\"restarted\":true") }
        }
    }

    /// Appends the end of a stream whose topic has completed. All waiting messages must have been written.
    ///
    /// - Parameters:
    ///   - last: the last message written; the sequence is 0 if there was none.
    ///   - loss: the missing messages.
    public func appendComplete(after last: EventID, _ loss: StreamLoss, into out: inout ByteBuffer) {
        switch self {
        case .eventStream:
            appendEndID(last, into: &out)
            out.append("event: complete\ndata: {\(loss.members)}\n\n")
        case .jsonLines:
            out.append("{\"end\":\"complete\",\(loss.members)}\n")
        }
    }

    /// Appends the end of a subscription that has failed, for example through the topic's failure or its own overflow.
    ///
    /// - Parameters:
    ///   - message: the reason, beginning with an error word such as `topic failed:` or `overflow:`.
    ///   - last, loss: as in `appendComplete`.
    public func appendFailed(after last: EventID, message: String, _ loss: StreamLoss, into out: inout ByteBuffer) {
        switch self {
        case .eventStream:
            appendEndID(last, into: &out)
            out.append("event: failed\ndata: {\"message\":")
        case .jsonLines:
            out.append("{\"end\":\"failed\",\"message\":")
        }
        JSONText.append(message, to: &out)
        out.append(self == .eventStream ? ",\(loss.members)}\n\n" : ",\(loss.members)}\n")
    }

    /// Appends a notice that one topic of a pattern has ended. The stream goes on.
    public func append(_ end: EndNotice, into out: inout ByteBuffer) {
        let loss = StreamLoss(dropped: end.dropped, restarts: end.restarts)
        switch self {
        case .eventStream: out.append("event: topic-end\ndata: {\"topic\":\"")
        case .jsonLines: out.append("{\"topic_end\":\"")
        }
        // Names need no escapes.
        out.append("\(end.topic)\",\"epoch\":\"\(end.epoch)\",\(loss.members)")
        if let failure = end.failure {
            out.append(",\"failure\":")
            JSONText.append(failure, to: &out)
        }
        out.append(self == .eventStream ? "}\n\n" : "}\n")
    }

    /// Appends a notice that the broker is shutting down. This is not an end: an EventSource reconnects and resumes.
    public func appendDraining(into out: inout ByteBuffer) {
        switch self {
        case .eventStream: out.append(": the broker is shutting down\n\n")
        case .jsonLines: out.append("{\"end\":\"draining\"}\n")
        }
    }

    /// Appends the id that a reconnecting EventSource sends to show that it has seen the end.
    private func appendEndID(_ last: EventID, into out: inout ByteBuffer) {
        out.append("id: \(EventID(epoch: last.epoch, sequence: last.sequence, isEnd: true).text)\n")
    }
}
