// Each fault of the model, and what it does to what clients see.

import JetStreamModel
import Testing

@Suite struct FaultTests {
    @Test func aLostAcknowledgementLeavesTheMessageStored() {
        let world = World()
        world.cluster.planned.lostAcknowledgements = 1
        #expect(world.publish("one", id: "a").filter(\.isAcknowledgement).isEmpty)
        #expect(world.truth.messages.count == 1 && world.cluster.acknowledged.isEmpty)
        let again = world.publish("one", id: "a").filter(\.isAcknowledgement)
        #expect(again.map(\.payload) == ["{\"stream\":\"FB_1\",\"seq\":1,\"duplicate\": true}"])
        #expect(world.truth.messages.count == 1 && world.cluster.acknowledged.map(\.isDuplicate) == [true])
    }

    @Test func aLostRepublishedMessageIsAGap() {
        let world = World()
        world.cluster.planned.lostRepublished = 1
        #expect(world.publish("one").map(\.subject) == ["_INBOX.a"])
        #expect(world.publish("two").first { !$0.isAcknowledgement }?["Nats-Sequence"] == "2")
    }

    @Test func messagesArriveTwice() {
        let world = World()
        world.cluster.planned.duplicates = 2
        let received = world.publish("one")
        #expect(received.count { $0.isAcknowledgement } == 2)
        #expect(received.filter { !$0.isAcknowledgement }.map { $0["Nats-Sequence"] } == ["1", "1"])
    }

    @Test func anAnswerIsLost() {
        let world = World()
        world.cluster.planned.lostAnswers = 1
        #expect(world.ask("STREAM.INFO.FB_1").isEmpty)
        #expect(world.ask("STREAM.INFO.FB_1").count == 1)
    }

    @Test func jetStreamIsUnavailable() {
        let world = World()
        world.cluster.isJetStreamAvailable = false
        #expect(world.ask("STREAM.NAMES").first?.payload.contains("\"err_code\":10008") == true)
        #expect(world.ask("DIRECT.GET.FB_1", "{\"seq\":1}").first?.body.hasPrefix("NATS/1.0 503\r\n") == true)
        #expect(world.publish("one").first?.body.hasPrefix("NATS/1.0 503\r\n") == true)
        #expect(world.truth.messages.isEmpty)
        world.cluster.isJetStreamAvailable = true
        world.cluster.planned.unavailable = 1
        #expect(world.ask("STREAM.INFO.FB_1").first?.payload.contains("\"err_code\":10008") == true)
        #expect(world.publish("one").count == 2)
    }

    /// Delays mix up what belongs to different subjects, and nothing else.
    @Test func delaysKeepTheOrderOfASubject() {
        var mixed = 0
        for seed in 0..<20 {
            let world = World(seed: UInt64(seed)) {
                $0.acknowledgementDelay = 50
                $0.liveDelay = 50
            }
            for _ in 0..<20 { world.send(world.publication("x", reply: "_INBOX.b")) }
            let received = world.finish()
            let live = received.filter { $0.subject == "fb.l.t" }.compactMap { $0["Nats-Sequence"] }
            #expect(live == (1...20).map(String.init))
            let acknowledged = received.filter { $0.subject == "_INBOX.b" }.map(\.payload)
            #expect(acknowledged == (1...20).map { "{\"stream\":\"FB_1\",\"seq\":\($0)}" })
            if received[0].subject == "fb.l.t", received[39].subject == "_INBOX.b" { mixed += 1 }
        }
        #expect(mixed > 0)
    }

    @Test func whatIsNotCommittedIsInProcess() {
        let world = World(servers: 3) { $0.commitDelay = 1_000 }
        // A delay can be 0.
        while world.truth.uncommitted == 0 {
            world.send(world.publication("one", reply: "_INBOX.a", id: "a\(world.truth.messages.count)"))
        }
        let id = "a\(world.truth.messages.count)"
        #expect(world.publish("again", id: id).last?.payload.contains("\"err_code\":10158") == true)
        let chained = world.publish("next", headers: [("Nats-Expected-Last-Subject-Sequence", "1")])
        #expect(chained.last?.payload.contains("\"err_code\":10164") == true)
        let received = world.finish()
        #expect(received.contains(where: \.isAcknowledgement) && world.truth.uncommitted == 0)
    }

    /// A leader change may lose what is not committed, keep later messages, and never changes the order.
    @Test func aLeaderChangeLosesWhatIsNotCommitted() {
        var lost = 0
        var silent = 0
        for seed in 0..<40 {
            let world = World(seed: UInt64(seed), servers: 3) {
                $0.commitDelay = 1_000
                $0.electionTime = 1_000
            }
            for index in 0..<6 { world.send(world.publication("\(index)", reply: "_INBOX.a", id: "\(index)")) }
            world.cluster.changeLeader(of: "FB_1", now: world.now)
            let stored = world.finish().filter(\.isAcknowledgement).count
            let truth = world.truth
            #expect(truth.uncommitted == 0 && truth.messages.count >= stored)
            #expect(truth.messages.map(\.sequence) == Array(1...6).prefix(truth.messages.count).map(UInt64.init))
            #expect(truth.messages.compactMap(\.id) == truth.messages.compactMap(\.id).sorted())
            lost += 6 - truth.messages.count
            silent += truth.messages.count - stored
            world.now += 1_000
            world.send(world.publication("later", reply: "_INBOX.a"))
            #expect(world.finish().contains { $0.isAcknowledgement })
        }
        #expect(lost > 0 && silent > 0)
    }

    @Test func withoutALeaderThereIsNoAnswerAndThenNobody() throws {
        let world = World(servers: 3) { $0.electionTime = 1_000_000 }
        world.cluster.changeLeader(of: "FB_1", now: world.now)
        #expect(world.publish("one").isEmpty && world.ask("STREAM.INFO.FB_1").isEmpty)
        var answers: [Operation] = []
        for _ in 0..<100 where answers.isEmpty {
            world.now += 10_000
            answers = world.publish("one")
        }
        #expect(answers.first?.body.hasPrefix("NATS/1.0 503\r\n") == true)
        #expect(world.ask("STREAM.INFO.FB_1").first?.payload.contains("\"err_code\":10008") == true)
        world.now += 1_000_000
        #expect(world.publish("one").count == 2)
    }

    @Test func aNewLeaderRepeatsTheLatestMessages() {
        let world = World(servers: 3) { $0.duplicates = 1_000_000 }
        for _ in 0..<5 { _ = world.publish("x") }
        var repeated: [String] = []
        for _ in 0..<20 {
            world.cluster.changeLeader(of: "FB_1", now: world.now)
            repeated += world.take().compactMap { $0["Nats-Sequence"] }
        }
        #expect(Set(repeated) == ["3", "4", "5"] && world.truth.messages.count == 5)
    }

    @Test(arguments: [false, true])
    func aNewLeaderMayOvertake(_ mayOvertake: Bool) {
        var reversed = 0
        for seed in 0..<40 {
            let world = World(seed: UInt64(seed), servers: 3) {
                $0.liveDelay = 50
                $0.newLeaderOvertakes = mayOvertake
            }
            world.send(world.publication("x", reply: "_INBOX.a"))
            world.cluster.changeLeader(of: "FB_1", now: world.now)
            world.send(world.publication("x", reply: "_INBOX.a"))
            let sequences = world.finish().filter { $0.subject == "fb.l.t" }.compactMap { $0["Nats-Sequence"] }
            #expect(sequences.count == 2)
            if sequences == ["2", "1"] { reversed += 1 }
        }
        #expect((reversed > 0) == mayOvertake)
    }

    @Test func aNewStreamIsNotReachedAtOnce() {
        let world = World { $0.creationTime = 1_000_000 }
        let created = world.ask("STREAM.CREATE.N", "{\"name\":\"N\",\"subjects\":[\"n\"]}")
        #expect(created.first?.payload.contains("did_create") == true)
        world.send("PUB n _INBOX.a 1\r\nx\r\n")
        #expect(world.take().first?.body.hasPrefix("NATS/1.0 503\r\n") == true)
        world.now += 1_000_000
        world.send("PUB n _INBOX.a 1\r\nx\r\n")
        #expect(world.take().first?.payload == "{\"stream\":\"N\",\"seq\":1}")
    }

    @Test func aNewLeaderHasAnotherClock() {
        let world = World(servers: 3) { $0.clockSkew = 100_000_000 }
        for _ in 0..<20 {
            _ = world.publish("x")
            world.cluster.changeLeader(of: "FB_1", now: world.now)
        }
        let times = world.truth.messages.map(\.time)
        #expect(times.count == 20 && times != times.sorted())
    }

    @Test func laggingReplicasMissMessages() {
        let world = World()
        for _ in 0..<9 { _ = world.publish("x") }
        world.cluster.setMissing([3...4, 8...9], of: "FB_1")
        let batch = world.ask("DIRECT.GET.FB_1", "{\"seq\":1,\"batch\":20}")
        #expect(batch.dropLast().compactMap { $0["Nats-Sequence"] } == ["1", "2", "5", "6", "7"])
        #expect(batch.last?["Nats-Num-Pending"] == "0" && batch.last?["Nats-Last-Sequence"] == "7")
        // The leader has them.
        #expect(world.ask("STREAM.MSG.GET.FB_1", "{\"seq\":9}").first?.payload.contains("\"seq\":9") == true)
        world.cluster.setMissing([], of: "FB_1")
        #expect(world.ask("DIRECT.GET.FB_1", "{\"seq\":1,\"batch\":20}").count == 10)
    }

    @Test func replicasLagByChance() {
        let world = World { $0.lagging = 2 }
        for _ in 0..<20 { _ = world.publish("x") }
        var newest = 0
        var middle = 0
        for _ in 0..<200 {
            let batch = world.ask("DIRECT.GET.FB_1", "{\"seq\":1,\"batch\":50}").dropLast()
            let sequences = batch.compactMap { $0["Nats-Sequence"].flatMap { Int($0) } }
            if sequences.last != 20 { newest += 1 } else if sequences.count < 20 { middle += 1 }
        }
        #expect(newest > 10 && middle > 10 && newest + middle < 190)
    }

    @Test func theTailIsLostAndItsSequencesAreUsedAgain() {
        let world = World()
        for index in 1...5 { _ = world.publish("x", id: "\(index)") }
        world.cluster.loseTail(of: "FB_1", count: 2)
        #expect(world.truth.lastSequence == 3 && world.cluster.lost.map(\.sequence) == [4, 5])
        #expect(world.ask("STREAM.INFO.FB_1").first?.payload.contains("\"last_seq\":3") == true)
        #expect(
            world.publish("new", id: "5").last { $0.isAcknowledgement }?.payload == "{\"stream\":\"FB_1\",\"seq\":4}")
        world.cluster.loseTail(of: "FB_1", count: 99)
        #expect(world.truth.lastSequence == 0 && world.truth.messages.isEmpty)
    }

    @Test func aMessageInTheMiddleIsLost() {
        let world = World()
        for _ in 1...3 { _ = world.publish("x") }
        #expect(
            world.cluster.loseMessage(of: "FB_1", sequence: 2) && !world.cluster.loseMessage(of: "FB_1", sequence: 2))
        #expect(world.ask("STREAM.MSG.GET.FB_1", "{\"seq\":2}").first?.payload.contains("\"err_code\":10037") == true)
        #expect(world.ask("STREAM.INFO.FB_1").first?.payload.contains("\"num_deleted\":1") == true)
    }

    @Test func aStreamIsDeletedByOthers() {
        let world = World()
        world.cluster.deleteStream("FB_1")
        #expect(world.publish("one").first?.body.hasPrefix("NATS/1.0 503\r\n") == true)
        #expect(world.cluster.stream(named: "FB_1") == nil && world.cluster.streamNames.isEmpty)
    }

    @Test func messagesExpire() throws {
        let world = World()
        _ = world.publish("x")
        let deadline = try #require(world.cluster.deadline)
        #expect(deadline == world.now + 1_000_000_000)
        world.cluster.tick(now: deadline - 1)
        #expect(world.truth.messages.count == 1)
        world.cluster.tick(now: deadline)
        #expect(world.truth.messages.isEmpty && world.truth.lastSequence == 1)
    }

    @Test func idsExpireWithTheDuplicateWindow() {
        let world = World()
        _ = world.publish("x", id: "a")
        world.now += 499_999_999
        #expect(world.publish("x", id: "a").first?.payload.contains("duplicate") == true)
        world.now += 1
        #expect(world.publish("x", id: "a").contains { $0.payload == "{\"stream\":\"FB_1\",\"seq\":2}" })
    }
}
