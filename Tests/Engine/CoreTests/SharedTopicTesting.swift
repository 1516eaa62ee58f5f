// SharedTopicTesting: tests of shared topics, which take the upstream's place.

import ForebayWire
import Replay
import Testing

@testable import Core

/// The topic is called t.
protocol SharedTopicTesting {}

extension SharedTopicTesting {
    func broker(_ shards: Int = 1) throws -> TestBroker {
        var limits = Limits()
        limits.shared = [try TopicPattern(parsing: ">")]
        return TestBroker(shards: shards, limits: limits)
    }

    func owner(_ broker: TestBroker) -> Shard {
        broker.shards[Shard.owner(of: "t", among: broker.shards.count)]
    }

    func requests(_ broker: TestBroker) -> [UpstreamRequest] {
        defer { broker.upstream = [] }
        return broker.upstream
    }

    func joined(_ broker: TestBroker) -> TopicUse? {
        for case .join(let use, _) in requests(broker) { return use }
        return nil
    }

    func report(_ reports: [UpstreamReport], to broker: TestBroker) {
        owner(broker).upstream(reports, now: broker.now)
        broker.run()
    }

    func batch(_ texts: [String], from first: UInt64, tickets: [PublishTicket?] = []) -> FeedBatch {
        var batch = FeedBatch()
        for (index, text) in texts.enumerated() {
            let item = FeedBatch.Item(
                sequence: SequenceNumber(first + UInt64(index)), timestamp: 1,
                ticket: index < tickets.count ? tickets[index] : nil)
            Array(text.utf8).withUnsafeBytes { batch.append(item, metadata: nil, payload: $0) }
        }
        return batch
    }

    /// The requests of one kind that were made since the last call.
    func ends(_ broker: TestBroker) -> [(ticket: PublishTicket, end: SharedEnd)] {
        requests(broker).compactMap { if case .end(_, let ticket, let end) = $0 { (ticket, end) } else { nil } }
    }

    /// A topic that has one message.
    func begin(_ broker: TestBroker, _ client: TestClient) throws -> TopicUse {
        client.subscribe("t?replay=all&meta=off", stream: 1)
        let use = try #require(joined(broker))
        report([.joined(use, epoch: 7, next: .first), .messages(use, batch(["a"], from: 1))], to: broker)
        report([.current(use, wasEmpty: false)], to: broker)
        #expect(client.received() == ["1:a"])
        return use
    }
}
