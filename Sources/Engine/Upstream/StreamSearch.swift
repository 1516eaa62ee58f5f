// StreamSearch: which stream has a topic's messages. A server that creates two streams at once does not notice that
// they have the same subjects; then the one with the lower epoch counts, and the creator of the other deletes it.
//
//     none ──nothing to publish──▶ absent
//       └────first publish───────▶ create ──▶ wait for others ──▶ found

import Core

struct StreamSearch {
    enum Step {
        /// `unwanted`: a stream that this node has created and that is not the topic's.
        case found(epoch: UInt64, unwanted: String?)
        case none
        /// Others may be created at the same time.
        case awaitOthers
        case refuse(Refusal)
    }

    /// Whether the topic did not exist when it was looked for first.
    private(set) var wasEmpty = false
    /// The stream that this node has created.
    private var created: String?
    private var hasWaited = false

    /// - Parameters:
    ///   - names: the streams that have the topic's subjects.
    ///   - epoch: that of the topic, if it was found before.
    mutating func found(_ names: [String], of topic: String, known epoch: UInt64?) -> Step {
        if let other = names.first(where: { SharedNames.epoch(ofStream: $0) == nil }) {
            return .refuse(
                Refusal.upstream(
                    "The NATS stream '\(other)' has the subjects of the topic '\(topic)'; take fb.> off that stream."))
        }
        guard let lowest = names.compactMap({ SharedNames.epoch(ofStream: $0) }).min() else {
            wasEmpty = wasEmpty || epoch == nil
            return .none
        }
        if wasEmpty, !hasWaited {
            hasWaited = true
            return .awaitOthers
        }
        let name = SharedNames.stream(lowest)
        defer { created = nil }
        guard epoch == nil || epoch == lowest else {
            return .refuse(.anotherEpoch(topic))
        }
        return .found(epoch: lowest, unwanted: created.flatMap { $0 != name && names.contains($0) ? $0 : nil })
    }

    /// - Parameter epoch: nil if another node was first.
    mutating func noteCreated(_ epoch: UInt64?) {
        created = epoch.map { SharedNames.stream($0) }
        hasWaited = true
    }
}
