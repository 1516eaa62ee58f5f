// ResumePosition: where a subscription to a pattern continues in one of its topics.

import Bytes

/// A position in a topic, with which a subscription to a pattern resumes.
public struct ResumePosition: Equatable, Sendable {
    public var topic: String
    /// At least 1.
    public var epoch: UInt64
    /// The sequence of the next message, at least 1.
    public var sequence: UInt64

    public init(topic: String, epoch: UInt64, sequence: UInt64) {
        self.topic = topic
        self.epoch = epoch
        self.sequence = sequence
    }

    /// The most bytes that this position takes as JSON, with a comma. Names of topics have nothing to escape.
    public var jsonSize: Int { topic.utf8.count + "\"\":[\"\",],".utf8.count + 2 * 20 }

    /// Appends positions as the data of a request: `{"orders.eu":["6616333571386961933",42],…}`.
    public static func append(_ positions: [ResumePosition], to out: inout ByteBuffer) {
        out.append("{")
        for (index, position) in positions.enumerated() {
            if index > 0 { out.append(",") }
            JSONText.append(position.topic, to: &out)
            out.append(":[\"\(position.epoch)\",\(position.sequence)]")
        }
        out.append("}")
    }
}
