// PublishSettings: what `pub` was asked to do.

import Bytes
import Client

struct PublishSettings {
    enum Source {
        case message(String)
        case lines
        /// Generated payloads of so many bytes.
        case size(Int)
    }

    let topic: String
    let source: Source
    let count: UInt64?
    let rate: Double?
    let ack: Bool
    let complete: Bool
    let json: Bool

    /// Bytes of one line of the standard input.
    static let lineLimit = 1 << 20

    init(_ arguments: Arguments) throws(UsageError) {
        topic = arguments.operands[0]
        ack = arguments.has("ack")
        complete = arguments.has("complete")
        json = arguments.has("json")
        rate = arguments.decimal("rate")
        let sources = [
            arguments.operands.count > 1 ? "MESSAGE" : nil, arguments.has("stdin") ? "--stdin" : nil,
            arguments.has("size") ? "--size" : nil,
        ].compactMap { $0 }
        if sources.count > 1 {
            throw UsageError("\(sources[0]) and \(sources[1]) exclude each other: both say what to publish.")
        }
        if arguments.operands.count > 1 {
            source = .message(arguments.operands[1])
            // One message, unless a rate asks for more without end.
            count = arguments.number("count") ?? (rate == nil ? 1 : nil)
        } else if arguments.has("stdin") {
            source = .lines
            count = arguments.number("count")
        } else if let size = arguments.number("size") {
            source = .size(Int(size))
            count = arguments.number("count")
        } else {
            throw UsageError("Say what to publish: a MESSAGE, --stdin or --size.")
        }
        try SubscribeSettings.check(topic: topic)
        if topic.hasPrefix("$SYS.") { throw UsageError("\(topic) is the broker's own: clients cannot publish there.") }
    }

    /// One message without a channel.
    var isSingle: Bool {
        guard case .message = source else { return false }
        return count == 1 && !complete
    }
}
