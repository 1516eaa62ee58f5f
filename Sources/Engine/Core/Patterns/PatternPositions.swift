// PatternPositions: the positions with which a subscription to a pattern resumes. Each shard is asked for the topics
// that it owns, and is sent the positions in these.

import Bytes
import ForebayWire
import JSONParsing
import Replay

/// A position in a topic whose name is known.
struct TopicPlace: Equatable, Sendable {
    var epoch: UInt64
    /// The next message.
    var next: SequenceNumber
}

struct PatternPositions: Sendable {
    /// Bytes that a position takes, about.
    static let memory = 128

    /// By the shard that owns the topic.
    private let byOwner: [[String: TopicPlace]]
    let count: Int

    static let none = PatternPositions()
    private init() { (byOwner, count) = ([], 0) }

    /// - Throws: the refusal of positions in too many topics, or in one that does not match.
    init(_ positions: [ResumePosition], in pattern: TopicPattern, most: Int, shards: Int) throws(Refusal) {
        guard positions.count <= most else { throw PatternPositions.tooMany(most) }
        var byOwner = [[String: TopicPlace]](repeating: [:], count: positions.isEmpty ? 0 : shards)
        for position in positions {
            let name = PatternPositions.shown(position.topic)
            guard pattern.matches(position.topic) else {
                throw .invalid("The topic '\(name)' of a position does not match '\(pattern)'; leave it out.")
            }
            let place = TopicPlace(epoch: position.epoch, next: SequenceNumber(position.sequence))
            let owner = Shard.owner(of: position.topic, among: shards)
            guard byOwner[owner].updateValue(place, forKey: position.topic) == nil else {
                throw .invalid("There are two positions in '\(name)'; give only one.")
            }
        }
        self.byOwner = byOwner
        count = positions.count
    }

    var isEmpty: Bool { count == 0 }
    var memory: Int { count * PatternPositions.memory }

    /// The positions in the topics of a shard, by name.
    subscript(owner: Int) -> [String: TopicPlace] { isEmpty ? [:] : byOwner[owner] }

    /// A name that may be anything.
    private static func shown(_ topic: String) -> Substring { topic.prefix(TopicName.longest) }

    private static func tooMany(_ most: Int) -> Refusal {
        .invalid(
            "There are positions in more than \(counted(most, "topic")), the maximum of one subscription; leave some "
                + "out, and let since say where to begin in those.")
    }
}

// As JSON: {"orders.eu": ["6616333571386961933", 42], …}

extension PatternPositions {
    /// Parses the data of a request; without any there are no positions.
    /// - Parameter most: topics that may have a position.
    static func parse(_ data: UnsafeRawBufferPointer, most: Int) throws(Refusal) -> [ResumePosition] {
        guard !data.isEmpty else { return [] }
        try expectShape(data, most: most)
        guard let document = JSONDocument(data) else { throw malformed }
        var positions: [ResumePosition] = []
        try document.root.forEachMember { (topic, value) throws(Refusal) in
            guard let pair = value.elements, pair.count == 2 else { throw malformed }
            guard let epoch = pair[0].string.flatMap({ UInt64($0) }), epoch > 0 else {
                throw .invalid(
                    "The epoch of the position in '\(shown(topic))' is not a string with a decimal number; send the "
                        + "one that came with the topic's last message.")
            }
            guard let sequence = pair[1].integer, sequence > 0 else {
                throw .invalid(
                    "The sequence of the position in '\(shown(topic))' is not a number from 1; send that of the "
                        + "topic's last message plus 1.")
            }
            positions.append(ResumePosition(topic: topic, epoch: epoch, sequence: UInt64(sequence)))
        }
        return positions
    }

    private static var malformed: Refusal {
        .invalid(
            "The positions are not a JSON object with a member \"TOPIC\": [\"EPOCH\", SEQUENCE] for each topic; send "
                + "such an object, or no data.")
    }

    /// Bounds the values and the depth of what is to be parsed: an object with arrays of two values. Names of topics
    /// and numbers contain none of these characters, so their places need not be known.
    private static func expectShape(_ data: UnsafeRawBufferPointer, most: Int) throws(Refusal) {
        var (arrays, commas, depth) = (0, 0, 0)
        for byte in data {
            switch byte {
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if byte == UInt8(ascii: "[") { arrays += 1 }
                guard depth <= 2 else { throw malformed }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ","): commas += 1
            default: break
            }
        }
        guard arrays <= most else { throw tooMany(most) }
        guard commas <= 2 * most else { throw malformed }
    }
}
