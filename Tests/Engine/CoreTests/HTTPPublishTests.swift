// Publishing over gRPC: credit, acknowledgements, parked publishes, messages in pieces.

import Bytes
import HTTP2
import HTTP2Frames
import Testing

@testable import Core

@Suite struct HTTPPublishTests {
    @Test(arguments: [0, 1]) func aChannelIsGrantedAndAcknowledged(_ shard: Int) {
        var limits = Limits()
        limits.grant = 4
        let broker = TestBroker(shards: 2, limits: limits)
        let reader = TestGRPC(broker, 0)
        let subscription = reader.subscribe("t")
        let peer = TestGRPC(broker, shard)
        let stream = peer.channel("t")
        var credit = peer[stream].grants().reduce(0) { $0 + $1.granted }
        #expect(credit == 4)
        var sent: [String] = []
        while sent.count < 50 {
            guard credit > 0 else { break }
            let texts = (0..<Int(credit)).map { "m\(sent.count + $0)" }
            sent += texts
            credit = 0
            peer.sendMessage(stream, texts.map { TestGRPC.item($0) })
            let answers = peer[stream].grants()
            credit += answers.reduce(0) { $0 + $1.granted }
            #expect(answers.map(\.accepted).max() == UInt64(sent.count))
        }
        #expect(sent.count >= 50)
        peer.halfClose(stream)
        #expect(peer[stream].status == "0" && peer[stream].isEnded)
        reader.read()
        #expect(reader[subscription].texts() == sent)
        #expect(peer.http!.exchanges.count == 0 && broker.shards[shard].find(peer.client.id)!.streams.channels.isEmpty)
    }

    /// The first message uses none of the credit granted before it arrived; room for this message is reserved.
    @Test(arguments: [2, 3, 10], [0, 1]) func theFirstMessageHasRoomBesideWhatIsGranted(_ buffer: Int, _ shard: Int) {
        let broker = TestBroker(shards: 2)
        let subscriber = broker.connect()
        subscriber.subscribe("t?overflow=block&buffer=\(buffer)", n: 1)
        subscriber.publish("t", "seen")
        let peer = TestGRPC(broker, shard)
        let stream = peer.channel("t")
        let credit = peer[stream].grants().reduce(0) { $0 + $1.granted }
        #expect(credit == UInt64(buffer) - 1)
        peer.sendMessage(stream, (0...Int(credit)).map { TestGRPC.item("m\($0)") })
        #expect(peer[stream].grants().map(\.accepted).max() == UInt64(buffer))
        let topic = broker.shards.lazy.compactMap { $0.topics["t"] }.first!
        #expect(topic.publishers.overshoot == 0 && topic.publishers.room.reserved == 0)
        subscriber.requestN(1)
        peer.read()
        #expect(peer[stream].grants().reduce(0) { $0 + $1.granted } == 1)
    }

    /// Processed messages are returned to the windows, however many they are.
    @Test func aLongChannelKeepsItsWindows() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.channel("t")
        let text = String(repeating: "x", count: 10_000)
        var credit = peer[stream].grants().reduce(0) { $0 + $1.granted }
        var sent = 0
        while sent < 1000, credit > 0 {
            peer.sendMessage(stream, [TestGRPC.item(text)])
            sent += 1
            credit = credit - 1 + peer[stream].grants().reduce(0) { $0 + $1.granted }
        }
        // More than twice the window of the connection.
        #expect(sent == 1000 && peer[stream].resetCode == nil && peer[stream].status == nil)
    }

    /// A message is refused however many pieces it comes in. A call that always has one message in flight, each
    /// completed in time, continues.
    @Test(arguments: [false, true]) func aMessageThatDribblesIsRefused(isFirst: Bool) {
        let broker = TestBroker()
        let reader = TestGRPC(broker)
        let subscription = reader.subscribe("t")
        let peer = TestGRPC(broker)
        let dribbling = isFirst ? peer.call(.publishOne) : peer.channel("t")
        let steady = peer.channel("t")
        let long = framed(TestGRPC.item(String(repeating: "x", count: 200)))
        let short = framed(TestGRPC.item("y"))
        var sent = 0
        for second in 0..<36 where peer[dribbling].status == nil {
            // The end of a message, and the beginning of the next.
            let pieces = [second == 0 ? [] : Array(short.suffix(3)), Array(short.dropLast(3))]
            peer.send(data(steady, pieces.flatMap { $0 }) + data(dribbling, Array(long[second...second])))
            sent = second
            broker.advance(seconds: 1)
            peer.read()
        }
        // A tick is a quarter of a second.
        #expect((29...30).contains(sent), "after \(sent) s")
        #expect(peer[dribbling].status == "4" && peer[dribbling].isEnded)
        #expect(peer[dribbling].message?.contains("within 30 s") == true)
        #expect(!peer[steady].isEnded && peer.http!.held.bytes == peer.exchange(steady)!.request.deframer.heldBytes)
        peer.sendMessage(steady, [UInt8]())
        reader.read()
        #expect(reader[subscription].texts().count == sent)
        if isFirst { return }
        // Nothing is left of either call.
        peer.cancel(steady)
        peer.send(data(dribbling, Array(long[...3])))
        #expect(peer.http!.exchanges.count <= 1 && broker.shards[0].streams.count == 1)
    }

    /// A peer that opens no window still learns why its publish failed.
    @Test(arguments: [0, 1]) func aRefusalNeedsNoWindow(_ shard: Int) {
        let broker = TestBroker(shards: 2)
        let holder = broker.connect()
        holder.subscribe("t")
        holder.publish("$SYS.topic.complete?name=t", "", stream: 3)
        let peer = TestGRPC(broker, shard, window: 0)
        let stream = peer.channel("t")
        peer.sendMessage(stream, TestGRPC.item("a"))
        #expect(peer[stream].status == "9" && peer[stream].isEnded)
    }

    @Test(arguments: [0, 1]) func theFirstMessageNeedsNoCredit(_ shard: Int) {
        var limits = Limits()
        limits.grant = 2
        let broker = TestBroker(shards: 2, limits: limits)
        let reader = TestGRPC(broker, 0)
        let subscription = reader.subscribe("t")
        let peer = TestGRPC(broker, shard)
        let stream = peer.call(.publish)
        peer.sendMessage(stream, TestGRPC.channel("t"), TestGRPC.item("first"))
        let granted = peer[stream].grants().reduce(0) { $0 + $1.granted }
        #expect(granted == 2 && !peer[stream].isEnded)
        peer.sendMessage(stream, TestGRPC.item("2"), TestGRPC.item("3"))
        reader.read()
        #expect(reader[subscription].texts() == ["first", "2", "3"])

        // A publisher without credit may still send its first message.
        let patient = peer.channel("t")
        #expect(peer[patient].grants().reduce(0) { $0 + $1.granted } == 2)
        peer.sendMessage(patient, TestGRPC.item("a"), TestGRPC.item("b"), TestGRPC.item("c"))
        reader.read()
        #expect(reader[subscription].texts() == ["a", "b", "c"] && !peer[patient].isEnded)
    }

    @Test(arguments: [0, 1]) func moreThanTheCreditIsRefused(_ shard: Int) {
        var limits = Limits()
        limits.grant = 2
        let broker = TestBroker(shards: 2, limits: limits)
        let reader = TestGRPC(broker, 0)
        let subscription = reader.subscribe("t")
        let peer = TestGRPC(broker, shard)
        let stream = peer.call(.publish)
        peer.sendMessage(stream, [TestGRPC.channel("t")] + (0..<10).map { TestGRPC.item("\($0)") })
        #expect(peer[stream].status == "9" && peer[stream].isEnded, "\(String(describing: peer[stream].heads.last))")
        reader.read()
        let texts = reader[subscription].texts()
        #expect(texts == texts.indices.map(String.init) && texts.count < 10)
        #expect(peer[stream].grants().last?.accepted == UInt64(texts.count), "accepted messages were not acknowledged")
        #expect(
            peer.http!.exchanges.count == 0
                && broker.shards[0].topics.all.allSatisfy { $0.publishers.current.channels.isEmpty }
        )
    }

    @Test(arguments: [0, 1]) func publishesWaitForRoomAndAreAnsweredThen(_ shard: Int) {
        let broker = TestBroker(shards: 2)
        let reader = TestGRPC(broker, 0)
        let subscription = reader.subscribe("t", n: 1, buffer: 2, overflow: .block)
        let peer = TestGRPC(broker, shard)
        let calls = (0..<5).map { peer.publishOne("t", "m\($0)") }
        let channel = peer.call(.publish)
        peer.sendMessage(channel, TestGRPC.channel("t"), TestGRPC.item("m5"))
        reader.read()
        peer.read()
        #expect(reader[subscription].texts() == ["m0"])
        #expect(calls.map { peer[$0].isEnded } == [true, true, true, false, false])
        #expect(peer[channel].grants().isEmpty)
        #expect(peer.connection!.input.parkedCount >= 2)
        reader.request(2, subscription)
        peer.read()
        #expect(calls.allSatisfy { peer[$0].status == "0" && peer[$0].messages.count == 1 })
        reader.request(10, subscription)
        peer.read()
        #expect(reader[subscription].texts() == ["m1", "m2", "m3", "m4", "m5"])
        let answers = peer[channel].grants()
        #expect(answers.contains { $0.accepted == 1 } && answers.contains { $0.granted > 0 })
        #expect(peer.connection!.input.parkedCount == 0 && peer.connection!.input.parkedBytes == 0)

        // One publish is cancelled, and one is dropped.
        _ = peer.publishOne("t", "fill")
        reader.request(1, subscription)
        let full = reader.subscribe("u", n: 1, buffer: 1, overflow: .block)
        _ = peer.publishOne("u", "1")
        _ = peer.publishOne("u", "2")
        let cancelled = peer.publishOne("u", "3")
        peer.cancel(cancelled)
        let late = peer.publishOne("u", "4")
        broker.advance(seconds: 11)
        peer.read()
        #expect(peer[late].status == "8", "\(peer[late].heads)")
        reader.request(10, full)
        #expect(reader[full].texts() == ["1", "2"])
        #expect(peer.connection!.input.parkedCount == 0 && peer.connection!.input.parkedBytes == 0)
    }

    @Test func theTopicEndsWithItsStreamWhereThatWasAskedFor() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let subscription = peer.subscribe("t")
        let plain = peer.channel("t")
        peer.sendMessage(plain, Proto.field(3, "no"))
        #expect(peer[plain].status == "3", "only a stream opened with complete_topic fails the topic")
        let failing = peer.channel("t", completes: true)
        peer.sendMessage(failing, TestGRPC.item("a"), Proto.field(3, "why not"))
        #expect(peer[failing].status == "0" && peer[failing].isEnded)
        #expect(peer[subscription].texts() == ["a"] && peer[subscription].status == "10")
        #expect(peer[subscription].message?.contains("why not") == true)
        let other = peer.subscribe("u")
        let completing = peer.channel("u", completes: true)
        peer.sendMessage(completing, TestGRPC.item("b"), end: true)
        #expect(peer[completing].status == "0" && peer[other].texts() == ["b"] && peer[other].end == "completed")
        let late = peer.publishOne("u", "c")
        #expect(peer[late].status == "9")
        #expect(peer.http!.exchanges.count == 0 && broker.shards[0].streams.count == 0)
    }

    /// A peer that reads nothing receives its grants combined, and a bounded number of bytes.
    @Test func grantsDoNotPileUp() {
        var limits = Limits()
        limits.grant = 1
        let broker = TestBroker(limits: limits)
        let peer = TestGRPC(broker, window: 0)
        let stream = peer.channel("t")
        for index in 0..<5000 { peer.sendMessage(stream, TestGRPC.item("\(index)")) }
        #expect(peer.exchange(stream)!.body.count <= limits.acknowledgementBacklog + 100)
        #expect(!peer[stream].isEnded)
        peer.send(windowUpdate(stream, 1 << 20))
        peer.read()
        let answers = peer[stream].grants()
        #expect(answers.reduce(0) { $0 + $1.granted } == 5000 && answers.map(\.accepted).max() == 5000)
    }

    @Test func messagesMayComeInAnyPieces() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let subscription = peer.subscribe("t")
        let stream = peer.channel("t")
        var sent: [String] = []
        for size in [1, 2, 7, 100, 5000] {
            let texts = ["", "x\(size)", String(repeating: "q", count: 3000)]
            sent += texts
            peer.sendMessage(stream, texts.map { TestGRPC.item($0) }, by: size)
            #expect(peer.http!.held.bytes == 0)
        }
        #expect(peer[subscription].texts() == sent)
        let one = peer.call(.publishOne)
        peer.sendMessage(one, Proto.field(1, "t") + TestGRPC.item("in pieces"), end: true, by: 3)
        #expect(peer[one].status == "0" && peer.http!.held.bytes == 0 && peer[subscription].texts() == ["in pieces"])
        peer.client.disconnect()
        broker.advance(seconds: 1)
        #expect(broker.shards[0].streams.count == 0)
    }

    @Test func unfinishedMessagesHaveALimitAndAreGivenBack() {
        var limits = Limits()
        limits.reassembly = 100_000
        let broker = TestBroker(limits: limits)
        let peer = TestGRPC(broker)
        let before = broker.memory.used
        let part = framed([UInt8](repeating: 0, count: 50_000)).dropLast(10_000)
        var streams: [UInt32] = []
        for _ in 0..<4 {
            let stream = peer.call(.publishOne, [("grpc-timeout", "2S")])
            for start in stride(from: 0, to: part.count, by: 10_000) {
                peer.send(data(stream, Array(part.dropFirst(start).prefix(10_000))))
            }
            streams.append(stream)
            peer.read()
            #expect(peer.http!.held.bytes <= limits.reassembly)
        }
        #expect(streams.map { peer[$0].status } == [nil, nil, "8", "8"])
        #expect(broker.memory.used - before >= 80_000 && broker.memory.used - before < 200_000)
        let cancelled = streams[0]
        peer.cancel(cancelled)
        // No message is kept for a peer that does not read its responses, either.
        peer.client.window = 0
        broker.advance(seconds: 3)
        #expect(peer.http!.held.bytes == 0)
        peer.client.read(.max)
        peer.read()
        #expect(peer[streams[1]].status == "4" && peer.http!.exchanges.count == 0)
        let fine = peer.publishOne("t", "fine")
        #expect(peer[fine].status == "0")
    }

    @Test func aMessageTooLongIsRefusedAlone() {
        var limits = Limits()
        limits.payload = 1000
        let broker = TestBroker(limits: limits)
        let peer = TestGRPC(broker)
        let long = peer.publishOne("t", String(repeating: "l", count: 1001))
        #expect(peer[long].status == "8")
        let allowed = peer.publishOne("t", String(repeating: "l", count: 1000))
        #expect(peer[allowed].status == "0")
        let cut = peer.call(.publishOne)
        peer.send(data(cut, [0, 0, 0, 0, 9, 1], end: true))
        peer.read()
        #expect(peer[cut].status == "13" && peer.http!.exchanges.count == 0)
    }
}
