// SharedCalls: control calls about shared topics. This node may not follow the topic yet, and the numbers of publishers
// are in the topic's stream, so that such calls wait for the upstream.

import Replay

extension ControlRequests {
    /// Makes a call about a shared topic wait until it is known whether the topic exists, or for a look-up in its
    /// stream. Returns whether it waits.
    func awaitJoin(_ call: ControlRequest, for target: ReplyTarget, now: Instant) throws(Refusal) -> Bool {
        let publisher: PublisherKey?
        let name: String
        switch call.subject {
        case .topic(let topic, _): (name, publisher) = (topic, nil)
        case .publisher(let topic, let id): (name, publisher) = (topic, PublisherKey(user: call.caller?.user, id: id))
        case .connection, .subscription: return false
        }
        guard limits.isShared(name) else { return false }
        let topic = try ownership.topic(named: name, for: nil, now: now)
        // A topic that existed before a change of the patterns is not shared.
        guard let shared = topic.shared else { return false }
        switch shared.state {
        case .joining:
            try shared.expectRoomForCall()
            shared.add((call, target))
        case .absent:
            // Only those who wait for it can be shown.
            guard publisher == nil else { return false }
            if case .topic(_, .info) = call.subject, shared.waiting > 0 { return false }
            throw Refusal.noTopic(name)
        case .current:
            guard let publisher else { return false }
            try shared.expectRoomForCall()
            let ticket = ownership.newTicket()
            shared.addLookup(ticket, of: publisher, for: target)
            effects.upstream.append(.find(shared.use, ticket, publisher: publisher.bytes))
        }
        topic.noteUse(now)
        return true
    }

    /// The answer to a look-up.
    func describe(_ key: PublisherKey, _ last: SharedProgress?, of topic: Topic) -> Description {
        let progress = last.map { KnownPublisher.Progress(number: $0.number, sequence: $0.sequence) }
        return descriptions.describe(key, progress ?? KnownPublisher.Progress(), of: topic.name, epoch: topic.epoch)
    }
}

extension Refusal {
    static func noTopic(_ name: String) -> Refusal {
        Refusal(.notFound, "There is no topic '\(name)'; the first publish or subscription creates it.")
    }
}
