// PatternPositions: the positions with which a subscription to a pattern resumes. Each shard is asked for the topics
// that it owns, and is sent the positions in these.

import Bytes
import ForebayWire
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
    private var byOwner: [[String: TopicPlace]]
    private(set) var count: Int

    static let none = PatternPositions()
    private init() { (byOwner, count) = ([], 0) }

    /// - Throws: the refusal of positions in too many topics, in one that does not match, or of two in one topic.
    init(_ positions: [ResumePosition], in pattern: TopicPattern, most: Int, shards: Int) throws(Refusal) {
        guard positions.count <= most else { throw PatternPositions.tooMany(most) }
        var byOwner = [[String: TopicPlace]](repeating: [:], count: positions.isEmpty ? 0 : shards)
        for position in positions {
            let name = position.topic
            // The broker's own names follow the same rules after their prefix.
            let checked = TopicName.isSystem(name) ? String(name.dropFirst(TopicName.system.count)) : name
            if let fault = TopicName.fault(checked) { throw .invalid(fault) }
            guard pattern.matches(name) else {
                throw .invalid("The topic '\(name)' of a position does not match '\(pattern)'; leave it out.")
            }
            let place = TopicPlace(epoch: position.epoch, next: SequenceNumber(position.sequence))
            let owner = Shard.owner(of: name, among: shards)
            guard byOwner[owner].updateValue(place, forKey: name) == nil else {
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

    mutating func remove(_ name: String, of owner: Int) {
        if !isEmpty, byOwner[owner].removeValue(forKey: name) != nil { count -= 1 }
    }

    /// Keeps at most that many of those for which `isKept` holds.
    mutating func keep(most: Int, where isKept: (String) -> Bool) {
        guard !isEmpty else { return }
        var left = most
        for owner in byOwner.indices {
            byOwner[owner] = byOwner[owner].filter { name, _ in
                guard left > 0, isKept(name) else { return false }
                left -= 1
                return true
            }
        }
        count = most - left
    }

    static func tooMany(_ most: Int) -> Refusal {
        .invalid(
            "There are positions in more than \(counted(most, "topic")), the maximum of one subscription; leave some "
                + "out, and let since say where to begin in those.")
    }
}
