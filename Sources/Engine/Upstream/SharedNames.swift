// SharedNames: the subjects and streams of shared topics in JetStream. The subjects below `fb` must be reserved for
// the broker's nodes.
//
//     publish:  fb.p.TOKEN.TOPIC, TOKEN is - for messages without a number
//     live:     fb.l.TOPIC, to which JetStream republishes what it has stored
//     stream:   FB_EPOCH

import Bytes
import COpenSSL

enum SharedNames {
    static let unnumbered = "-"

    /// The token of a publisher that numbers its messages: 128 bits of the SHA-256 of its id and its user.
    static func token(of publisher: [UInt8]) -> String {
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        _ = SHA256(publisher, publisher.count, &digest)
        return digest.withUnsafeBytes { Base64.encode(UnsafeRawBufferPointer(rebasing: $0.prefix(16)), .url) }
    }

    /// The subject to publish to.
    static func publish(_ topic: String, token: String = unnumbered) -> String { "fb.p.\(token).\(topic)" }
    /// All subjects of a topic's stream.
    static func published(_ topic: String) -> String { "fb.p.*.\(topic)" }
    static func live(_ topic: String) -> String { livePrefix + topic }
    private static let livePrefix = "fb.l."
    /// What JetStream republishes of all topics.
    static let allLive = livePrefix + ">"
    /// The subjects of all topics' streams.
    static let allPublished = "fb.p.>"

    /// The topic that a live message's subject names.
    static func topic(ofLive subject: UnsafeRawBufferPointer) -> String? {
        let start = livePrefix.utf8.count
        return subject.count > start ? subject.slice(start..<subject.count).text : nil
    }

    private static let prefix = "FB_"
    static func stream(_ epoch: UInt64) -> String { prefix + String(epoch) }

    /// The epoch that a stream's name contains; nil if it is not the stream of a topic.
    static func epoch(ofStream name: some StringProtocol) -> UInt64? {
        guard name.hasPrefix(prefix), let epoch = UInt64(name.dropFirst(prefix.count)), stream(epoch) == name else {
            return nil
        }
        return epoch
    }

    /// The key of a stream's metadata that names its topic.
    static let topicKey = "forebay-topic"
}
