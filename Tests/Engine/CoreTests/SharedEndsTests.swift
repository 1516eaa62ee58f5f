// Ends, control calls and numbers of shared topics on the shard that owns them.

import ForebayWire
import Replay
import Testing

@testable import Core

@Suite struct SharedEndsTests: SharedTopicTesting {
    @Test(arguments: DeliveryTests.placements)
    func anEndIsAnsweredOnceItIsInTheStream(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let subscriber = broker.connect(at)
        let use = try begin(broker, subscriber)
        let caller = broker.connect(from)
        caller.publish("$SYS.topic.complete?name=t", "")
        let requested = ends(broker)
        #expect(requested.map(\.end) == [.completed])
        // Until then, messages are refused, and the end may be refused, too.
        let late = broker.connect(from)
        late.publish("t", "b")
        #expect(late.received().first?.contains("unavailable: The topic 't' is ending") == true)
        late.publish("$SYS.topic.fail?name=t", "", stream: 5)
        #expect(late.received().first?.contains("unavailable: The topic 't' is ending") == true)
        #expect(subscriber.received() == [] && caller.received() == [])
        report([.ended(use, .completed, by: requested[0].ticket)], to: broker)
        #expect(subscriber.received() == ["1:|"])
        #expect(caller.received().first?.contains("\"state\":\"completed\"") == true)
        late.publish("t", "b", stream: 7)
        #expect(late.received().first?.contains("ended: The topic 't' has completed") == true)
    }

    @Test func anEndOfAnotherNodeComesFirst() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        let use = try begin(broker, subscriber)
        let caller = broker.connect()
        caller.publish("$SYS.topic.complete?name=t", "")
        report([.ended(use, .failed("elsewhere"), by: nil)], to: broker)
        #expect(subscriber.received().first?.contains("topic failed: elsewhere") == true)
        #expect(caller.received().first?.contains("ended: The topic 't' has failed (elsewhere)") == true)
    }

    @Test func aRefusedEndLeavesTheTopicLive() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        let use = try begin(broker, subscriber)
        let publisher = broker.connect()
        publisher.channel("t?complete=true", "b", complete: true)
        let tickets = requests(broker).compactMap { if case .publish(let one) = $0 { one.ticket } else { nil } }
        report([.messages(use, batch(["b"], from: 2, tickets: tickets))], to: broker)
        let requested = ends(broker)
        #expect(requested.map(\.end) == [.completed], "the end comes behind the message")
        report([.refused(use, requested[0].ticket, .draining)], to: broker)
        #expect(publisher.received().last?.contains("draining: ") == true)
        #expect(subscriber.received() == ["1:b"])
        publisher.publish("$SYS.topic.complete?name=t", "", stream: 9)
        #expect(ends(broker).map(\.end) == [.completed])
    }

    @Test(arguments: DeliveryTests.placements)
    func aTopicThatHasEndedIsDeleted(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let subscriber = broker.connect(at)
        let use = try begin(broker, subscriber)
        let caller = broker.connect(from)
        caller.publish("$SYS.topic.delete?name=t", "")
        let requested = ends(broker)
        // Another node ends the topic first; the deletion still happens.
        report([.ended(use, .completed, by: nil)], to: broker)
        #expect(requested.map(\.end) == [.deleted] && caller.received() == [])
        #expect(subscriber.received() == ["1:|"])
        report([.ended(use, .deleted, by: requested[0].ticket)], to: broker)
        #expect(caller.received().first?.contains("\"name\":\"t\"") == true)
        // The name is free at once.
        caller.publish("t", "new", stream: 5)
        #expect(joined(broker).map { $0 != use } == true)
    }

    @Test(arguments: DeliveryTests.placements)
    func callsAboutATopicThatIsNotFollowedJoinIt(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let caller = broker.connect(from)
        caller.publish("$SYS.topic.info?name=t", "", stream: 1)
        caller.publish("$SYS.publisher.info?topic=t&publisher=p", "", stream: 3)
        let absent = try #require(joined(broker))
        #expect(caller.received() == [])
        report([.absent(absent)], to: broker)
        let answers = caller.received()
        #expect(answers[0].contains("not-found: There is no topic 't'") && answers[1].contains("\"number\":0"))
        // Nobody needs it any longer.
        #expect(requests(broker).contains { if case .leave(absent, _) = $0 { true } else { false } })
        caller.publish("$SYS.publisher.info?topic=t&publisher=p", "", stream: 5)
        let use = try #require(joined(broker))
        report([.joined(use, epoch: 7, next: SequenceNumber(9)), .current(use, wasEmpty: false)], to: broker)
        #expect(caller.received() == [])
        let asked = requests(broker).compactMap { if case .find(_, let ticket, _) = $0 { ticket } else { nil } }
        #expect(asked.count == 1)
        report([.found(use, asked[0], SharedProgress(number: 5, sequence: SequenceNumber(8)))], to: broker)
        let answer = caller.received().first ?? ""
        #expect(answer.contains("\"number\":5") && answer.contains("\"sequence\":8"), "\(answer)")
    }

    @Test func callsAreRefusedWhenTheTopicIsLeft() throws {
        let broker = try broker()
        let caller = broker.connect()
        caller.publish("$SYS.topic.info?name=t", "", stream: 1)
        let use = try #require(joined(broker))
        report([.left(use, Refusal(.unavailable, "Gone."))], to: broker)
        #expect(caller.received().first?.contains("unavailable: Gone.") == true)
    }

    @Test func callsThatWaitAreBounded() throws {
        let broker = try broker()
        let caller = broker.connect()
        for stream in 0..<1_100 as Range<UInt32> {
            caller.publish("$SYS.topic.info?name=t", "", stream: 2 * stream + 1)
            caller.cancel(stream: 2 * stream + 1)
        }
        caller.publish("$SYS.topic.info?name=t", "", stream: 5_001)
        #expect(caller.received().last?.contains("limit: 1024 calls") == true)
    }

    @Test func numbersAreLeftToTheUpstream() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        let use = try begin(broker, subscriber)
        let publisher = broker.connect()
        publisher.publish("t?publisher=p&number=7", "x", stream: 1)
        publisher.channel("t?publisher=q&number=3", "y", stream: 3)
        publisher.items(["z"], stream: 3)
        var sent: [SharedPublish] = []
        for case .publish(let one) in requests(broker) { sent.append(one) }
        #expect(sent.map(\.number) == [7, 3, 4])
        #expect(sent[0].publisher != sent[1].publisher && sent[1].publisher == sent[2].publisher)
        #expect(sent[0].chain == nil && sent[1].chain == sent[2].chain)
        let last = SequenceNumber(40)
        report([.duplicate(use, sent[0].ticket, last: last), .duplicate(use, sent[1].ticket, last: last)], to: broker)
        report([.messages(use, batch(["z"], from: 41, tickets: [sent[2].ticket]))], to: broker)
        let answers = publisher.received()
        #expect(answers.contains { $0.hasPrefix("1:40") } && answers.contains { $0.hasPrefix("3:41") }, "\(answers)")
        // After the end, the stream may still have a message whose answer was lost.
        report([.ended(use, .completed, by: nil)], to: broker)
        publisher.publish("t?publisher=p&number=8", "x", stream: 9)
        var again: [SharedPublish] = []
        for case .publish(let one) in requests(broker) { again.append(one) }
        #expect(again.map(\.number) == [8])
        report([.refused(use, again[0].ticket, SharedEnd.completed.refusal(of: "t"))], to: broker)
        #expect(publisher.received().last?.contains("ended: ") == true)
    }
}
