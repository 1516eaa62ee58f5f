// PublishIntake: handles publishes on the shard that owns their topic, whichever shard they come from.

import Bytes
import Replay

final class PublishIntake: ShardPart {
    let streams: StreamTable
    let topics: TopicTable
    let losses: PublishLosses
    let notices: PublisherNotices
    let ownership: TopicOwnership

    init(
        _ context: ShardContext, _ streams: StreamTable, _ topics: TopicTable, _ losses: PublishLosses,
        _ notices: PublisherNotices, _ ownership: TopicOwnership
    ) {
        self.streams = streams
        self.topics = topics
        self.losses = losses
        self.notices = notices
        self.ownership = ownership
        super.init(context)
    }

    /// Channels of publishers on other shards.
    private(set) var channels = PartitionedDictionary<StreamKey, Channel>()

    /// Opens a channel, or accepts an acknowledged publish.
    func open(_ key: StreamKey, _ request: PublishRequest, now: Instant) {
        do throws(Refusal) {
            let topic = try ownership.topic(named: request.name, for: request.account, now: now)
            topic.publishers.publish(key, request, now: now)
            if request.isChannel, let channel = topic.publishers.ifAny?.channels[key] { bind(channel, now: now) }
        } catch {
            losses.refusedPublish(error, of: request.name)
            notices.notify(key, .refused(error))
        }
    }

    /// Stores a channel for its later messages.
    private func bind(_ channel: Channel, now: Instant) {
        if channel.key.shard == index {
            (streams[channel.key.handle] as? Publisher)?.channel = channel
        } else {
            channels[channel.key] = channel
        }
    }

    func take(_ batch: MessageBatch, from key: StreamKey, now: Instant) {
        guard let channel = channels[key] else { return }
        batch.forEach { metadata, payload in
            channel.topic.publishers.item(channel, metadata: metadata, payload: payload, now: now)
        }
    }

    func take(_ batch: FrameBatch, from key: StreamKey, now: Instant) {
        guard let channel = channels[key] else { return }
        batch.withRun { channel.topic.publishers.items(channel, $0, now: now) }
    }

    func takeFire(_ batch: MessageBatch, name: String, _ account: Account?, now: Instant) {
        let topic: Topic
        do throws(Refusal) {
            topic = try ownership.topic(named: name, for: account, now: now)
        } catch {
            return losses.dropped(PublishLoss(error), of: name, count: batch.count)
        }
        batch.forEach { metadata, payload in
            topic.publishers.fireAndForget(metadata: metadata, payload: payload, now: now)
            return true
        }
    }

    /// A channel of a publisher on another shard has ended.
    func remove(_ key: StreamKey) { channels[key] = nil }

    /// A publisher on another shard has ended its half of a channel, or withdrawn its only publish.
    func ended(_ key: StreamKey, of name: String, _ end: PublisherEnd, now: Instant) {
        guard let channel = channels[key] else {
            topics[name]?.publishers.withdraw(key, now: now)
            return
        }
        channel.topic.publishers.ended(channel, end, now: now)
        // A completed channel whose first message is parked stays until that message is appended.
        if channel.topic.publishers.ifAny?.channels[key] == nil { channels[key] = nil }
    }
}
