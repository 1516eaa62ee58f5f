// Inspection: the contents of one shard, for the simulator, which compares them with its own ledger. The broker does
// not use it.

import ForebayWire
import Replay

/// The state of one shard between two inputs.
package struct Inspection {
    package struct Topic {
        package var name: String
        package var epoch: UInt64
        /// Whether the name currently refers to this topic.
        package var isNamed: Bool
        package var state: String
        package var head: UInt64
        /// The sequence of the next message.
        package var end: UInt64
        /// Messages before this sequence are committed.
        package var committed: UInt64
        /// For a topic kept in a store: messages before this sequence are written.
        package var written: UInt64?
        /// How the topic keeps its messages, and how often a store has refused some of them.
        package var storage: TopicStorage
        package var withdrawals: UInt32
        /// The oldest message in memory or in the store.
        package var kept: UInt64
        package var retained: UInt64
        package var lost: UInt64
        package var shed: (before: UInt64, used: Int)
        package var forgotten: UInt64
        package var bytes: Int
        package var memory: Int
        package var horizon: UInt64?
        package var isBlocked: Bool
        package var parked: Int
        package var reserved: Int
        package var channels: [Channel]
    }

    package struct Channel {
        package var shard: Int
        package var place: UInt32
        package var generation: UInt32
        package var outstanding: Int
        package var reserved: Int
        package var accepted: UInt64
        /// Whether the channel may send its first message, which uses no credit.
        package var awaitsFirst: Bool
    }

    package struct Stream {
        package var connection: ConnectionID
        package var stream: UInt32
        package var place: UInt32
        package var generation: UInt32
        package var isPublisher: Bool
        package var subscription: Subscription?
    }

    package struct Subscription {
        package var hasJoined: Bool
        package var epoch: UInt64
        package var joined: UInt64
        package var waiting: [SequenceRange]
        package var limit: Int
        package var requested: UInt64
        package var outstanding: UInt64
        package var isUnbounded: Bool
        package var delivered: UInt64
        package var dropped: UInt64
        package var droppedSinceDelivery: UInt64
        /// The end that the subscription's cursor knows of, and what its view has released.
        package var viewEnd: UInt64
        package var viewHead: UInt64
        package var viewLost: UInt64
        package var sharesLog: Bool
        /// Over HTTP: whether what was handed over has not been sent, or the peer's windows are closed.
        package var isHeldUp: Bool
        /// How many requested messages were gone when it joined.
        package var missed: UInt64
        /// For a subscription to a pattern: its cursors, in the order of their topics' epochs. The values above are
        /// totals, or those of no topic.
        package var cursors: [Subscription] = []
    }

    package struct Connection {
        package var id: ConnectionID
        /// Bytes handed over and not yet taken by the socket.
        package var output: Int
        package var control: Int
        package var isBlocked: Bool
        package var isFlushing: Bool
        package var isHeld: Bool
        package var isOpen: Bool
        package var forwarded: Int
        package var parked: Int
        /// Bytes of stream frames that were processed.
        package var received: UInt64
        package var isDetached: Bool
        /// What is kept for a peer that may resume; nil if it may not.
        package var kept: Kept?
    }

    package struct Kept {
        /// The position of the oldest frame that is kept.
        package var position: UInt64
        /// Bytes kept, including length prefixes, and how many of them a socket has taken.
        package var count: Int
        package var sent: Int
        /// Bytes that were sent and never kept, without length prefixes.
        package var passed: UInt64
        package var isPassing: Bool
    }

    package var topics: [Topic] = []
    package var streams: [Stream] = []
    package var connections: [Connection] = []

    /// A shard that has not been inspected.
    package init() {}
}

package final class Inspector: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let topics: TopicTable
    let subscriptions: SubscriptionTable
    let rateLimiter: RateLimiter
    let reports: Reports
    let forwarding: Forwarding
    let views: ViewTable
    let intake: PublishIntake

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ topics: TopicTable,
        _ subscriptions: SubscriptionTable, _ rateLimiter: RateLimiter, _ reports: Reports, _ forwarding: Forwarding,
        _ views: ViewTable, _ intake: PublishIntake
    ) {
        self.streams = streams
        self.connections = connections
        self.topics = topics
        self.subscriptions = subscriptions
        self.rateLimiter = rateLimiter
        self.reports = reports
        self.forwarding = forwarding
        self.views = views
        self.intake = intake
        super.init(context)
    }

    /// Counts of everything for which the engine itself needs memory.
    package struct Population: Equatable {
        package var connections = 0
        package var streams = 0
        /// Topics of clients, and their views.
        package var topics = 0

        package init() {}
    }

    package func add(to population: inout Population) {
        population.connections += connections.count
        population.streams += streams.count
        population.topics += topics.count + views.namedCount
    }

    /// Topics in the order of their epochs; streams and connections in the order of their slots.
    package func inspect() -> Inspection {
        var inspection = Inspection()
        for topic in topics.all.sorted(by: { $0.epoch < $1.epoch }) { inspection.topics.append(figures(of: topic)) }
        for place in 0..<streams.bound {
            if let stream = streams.at(place) { inspection.streams.append(figures(of: stream)) }
        }
        for place in 0..<connections.bound {
            guard let connection = connections.at(place) else { continue }
            inspection.connections.append(
                Inspection.Connection(
                    id: connection.id, output: connection.handedOver, control: connection.output.controlCount,
                    isBlocked: connection.output.blocked, isFlushing: connection.lists.isFlushing,
                    isHeld: connection.input.isHeld || connection.input.isBehind, isOpen: connection.isOpen,
                    forwarded: connection.input.forwarded,
                    parked: connection.input.parkedCount, received: connection.received,
                    isDetached: connection.isDetached, kept: kept(for: connection)))
        }
        return inspection
    }

    private func kept(for connection: Connection) -> Inspection.Kept? {
        guard connection.session != nil, let kept = connection.output.kept else { return nil }
        let store = kept.store
        return Inspection.Kept(
            position: store.position, count: store.count, sent: store.sent, passed: kept.passed,
            isPassing: connection.output.isPassing)
    }

    private func figures(of topic: Topic) -> Inspection.Topic {
        let room = topic.publishers.room
        return Inspection.Topic(
            name: topic.name, epoch: topic.epoch, isNamed: topics.hasName(topic), state: topic.state.name,
            head: topic.log.head.value, end: topic.log.end.value,
            committed: topic.committed.value, written: topic.window.commits?.written.value,
            storage: topic.window.storage, withdrawals: topic.window.commits?.attempt ?? 0,
            kept: topic.window.oldest.value,
            retained: topic.retained.value,
            lost: topic.window.lost.value, shed: (topic.window.shed.before.value, topic.window.shed.used),
            forgotten: topic.window.forgotten.value, bytes: topic.log.bytes,
            memory: topic.log.memory, horizon: room.horizon?.value, isBlocked: room.floor != nil,
            parked: topic.publishers.parkedCount, reserved: room.reserved,
            channels: (topic.publishers.ifAny?.channels.inOrder ?? []).map {
                Inspection.Channel(
                    shard: $0.key.shard, place: $0.key.handle.index, generation: $0.key.handle.generation,
                    outstanding: $0.outstanding, reserved: $0.reserved, accepted: $0.accepted,
                    awaitsFirst: $0.first == .awaited)
            })
    }

    private func figures(of stream: BoundStream) -> Inspection.Stream {
        Inspection.Stream(
            connection: stream.connection.id, stream: stream.stream, place: stream.handle.index,
            generation: stream.handle.generation, isPublisher: stream.kind == .publisher,
            subscription: (stream as? Subscriber).map(figures) ?? (stream as? PatternSubscription).map(figures))
    }

    private func figures(of subscription: PatternSubscription) -> Inspection.Subscription {
        let credit = subscription.credit
        let uncounted = subscription.cursors.values.reduce(0) {
            $0 + ($1.known { $0.dropped } ?? 0) - $1.countedDropped
        }
        return Inspection.Subscription(
            hasJoined: subscription.hasBegun, epoch: 0, joined: 0, waiting: [], limit: 0, requested: credit.requested,
            outstanding: credit.outstanding, isUnbounded: credit.isUnbounded, delivered: subscription.sums.delivered,
            dropped: subscription.sums.dropped + uncounted,
            droppedSinceDelivery: subscription.sums.droppedSinceDelivery, viewEnd: 0, viewHead: 0, viewLost: 0,
            sharesLog: false, isHeldUp: !subscription.isConfirmed, missed: 0,
            cursors: subscription.cursors.values.map(figures).sorted { $0.epoch < $1.epoch })
    }

    private func figures(of subscriber: Subscriber) -> Inspection.Subscription {
        let credit = subscriber.credit
        return Inspection.Subscription(
            hasJoined: subscriber.hasJoined, epoch: subscriber.view.epoch,
            joined: subscriber.known { $0.joined.value } ?? 0, waiting: subscriber.known { $0.waitingMessages } ?? [],
            limit: subscriber.known { $0.limit } ?? 0, requested: credit.requested,
            outstanding: credit.outstanding, isUnbounded: credit.isUnbounded,
            delivered: subscriber.known { $0.delivered } ?? 0, dropped: subscriber.known { $0.dropped } ?? 0,
            droppedSinceDelivery: subscriber.known { $0.droppedSinceDelivery } ?? 0,
            viewEnd: subscriber.known { $0.knownEnd.value } ?? subscriber.view.log.end.value,
            viewHead: subscriber.view.log.head.value,
            viewLost: subscriber.view.lost.value, sharesLog: subscriber.view.sharesLog,
            isHeldUp: subscriber.awaitsForm || subscriber.awaitsHistory || subscriber.isHeldUp,
            missed: subscriber.known { $0.missedAtStart } ?? 0)
    }

    /// A message in this shard's topic, with its charge in bytes and its timestamp; nil if it is not there.
    package func message(
        _ sequence: UInt64, of epoch: UInt64
    ) -> (payload: [UInt8], charge: Int, timestamp: Int64)? {
        guard let log = topics[epoch: epoch]?.log, log.head.value <= sequence, sequence < log.end.value else {
            return nil
        }
        guard log.holds(SequenceNumber(sequence)) else { return nil }
        let piece = log.piece(of: SequenceNumber(sequence))
        let entry = piece.chunk.entry(SequenceNumber(sequence) - piece.first)
        var payload: [UInt8] = []
        piece.chunk.forEachPayloadPart(entry) { payload.append(contentsOf: $0) }
        return (payload, Log.charge(payload: Int(entry.payload), metadata: Int(entry.metadata)), entry.timestamp)
    }

    /// A description of everything left; empty when all clients have gone and their topics have been removed.
    package func leftovers() -> [String] {
        var left: [String] = []
        func expect(_ count: Int, _ what: String) { if count > 0 { left.append("\(count) \(what)") } }
        expect(connections.count, "connections")
        expect(subscriptions.count, "subscriptions")
        expect(streams.count, "streams")
        expect(views.count, "views")
        expect(intake.channels.count, "channels")
        expect(rateLimiter.count, "meters")
        expect(forwarding.outgoingCount, "unsent batches")
        expect(topics.all.count { !TopicName.isSystem($0.name) && !$0.isUnloaded }, "topics")
        expect(
            effects.messages.reduce(0) { $0 + $1.count } + effects.deferredMessages.reduce(0) { $0 + $1.count }, "mails"
        )
        return left
    }

    /// Whether some topics have messages, or an end, that their store has not written.
    package var awaitsStore: Bool { topics.all.contains { !$0.isStoreDone } }

    /// The names of the topics that stay because the store keeps them.
    package func keptTopics() -> [String] { topics.all.filter(\.isKept).map(\.name).sorted() }

    /// Upper bound of the memory of an idle shard: the logs of the broker's own topics, and spare blocks.
    package var standingMemory: Int {
        topics.all.reduce(0) { $0 + (TopicName.isSystem($1.name) ? $1.log.memory : 0) }
            + BlockPool.spares * Block.size
    }
}

extension Quotas {
    /// Whether nothing is counted.
    package var isAtRest: Bool { isUnused }
}
