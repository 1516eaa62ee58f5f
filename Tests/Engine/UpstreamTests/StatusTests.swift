// What operators see of the upstream: the connection, topics, what waits, and what was counted.

import Core
import JetStreamModel
import Testing

@testable import Upstream

@Suite struct StatusTests {
    @Test func theConnectionIsShown() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        let start = world.now
        var status = world.status
        #expect(!status.isConnected && status.since == start && status.cause == "" && status.server == "")
        #expect(status.time == 30 * Limits.second && status.maxTopics == 1_000)
        #expect(world.run(seconds: 60) { world.nodes[0].upstream.isConnected })
        status = world.status
        #expect(status.isConnected && status.server == "nats://a:4222" && !status.version.isEmpty)
        #expect(status.since == world.now && status.counts.connections == 1)
        #expect(world.run(seconds: 60) { world.now > start + Limits.second })
        world.nodes[0].breakConnection(now: world.now)
        status = world.status
        #expect(!status.isConnected && status.since == world.now && status.server == "")
        #expect(status.cause == "The test closed the connection." && status.counts.connections == 1)
        #expect(world.run(seconds: 60) { world.nodes[0].upstream.isConnected })
        #expect(world.status.cause == "" && world.status.counts.connections == 2)
    }

    @Test func topicsAndPublishesAreCounted() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        let node = world.nodes[0]
        #expect(world.run(seconds: 60) { node.upstream.isConnected })
        node.join(now: world.now)
        #expect(world.status.joining == 1 && world.status.absent == 0)
        #expect(world.run(seconds: 60) { world.status.absent == 1 })
        #expect(world.status.topics == 1 && world.status.joining == 0)
        let handedOver = world.now
        node.publish(now: handedOver)
        #expect(world.status.publishes == 1 && world.status.oldestPublish == handedOver)
        #expect(world.run(seconds: 60) { node.waiting.isEmpty })
        let status = world.status
        #expect(status.publishes == 0 && status.oldestPublish == nil && status.topics == 1)
        #expect(status.absent == 0 && status.joining == 0 && status.unread == 0)
        #expect(status.counts.published == 1 && status.counts.read == 1)
        #expect(status.counts.resent == 0 && status.counts.refused == 0 && status.counts.lost == 0)
    }

    @Test func whatIsSentAgainAndWhatIsRefusedIsCounted() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        let node = world.nodes[0]
        node.join(now: world.now)
        node.publish(now: world.now)
        #expect(world.run(seconds: 60) { node.waiting.isEmpty })
        node.publish(now: world.now)
        node.breakConnection(now: world.now)
        #expect(world.run(seconds: 60) { node.waiting.isEmpty })
        #expect(world.status.counts.resent == 1 && world.status.counts.published == 2)
        #expect(world.status.counts.refused == 0)
        world.cluster.isJetStreamAvailable = false
        node.publish(now: world.now)
        #expect(world.run(seconds: 60) { node.waiting.isEmpty })
        #expect(world.status.counts.refused == 1 && node.refused.count == 1)
    }

    @Test func whatIsNotReadYetAndWhatIsLostIsCounted() throws {
        var options = ModelOptions()
        options.faults.answerDelay = 100 * Node.millisecond
        let world = try World(seed: 1, options, nodes: 2)
        let writer = world.nodes[1]
        writer.join(now: world.now)
        for _ in 0..<300 { writer.publish(now: world.now) }
        #expect(world.run(seconds: 60) { writer.waiting.isEmpty })
        let name = try #require(world.cluster.streamNames.first)
        #expect(world.cluster.loseMessage(of: name, sequence: 7))
        world.nodes[0].join(now: world.now)
        #expect(world.run(seconds: 60) { world.status.unread == 300 })
        #expect(world.status.joining == 1 && world.status.counts.read == 0)
        #expect(world.run(seconds: 60) { world.nodes[0].isCurrent })
        #expect(world.status.unread == 0 && world.status.joining == 0)
        #expect(world.status.counts.read == 299 && world.status.counts.lost == 1 && world.nodes[0].lost == [7])
        #expect(world.status.counts.published == 0)
    }

    /// The server is there, but JetStream is not: it has no majority, or is not enabled.
    @Test func aConnectionWithoutJetStreamIsNone() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        let node = world.nodes[0]
        world.cluster.isJetStreamAvailable = false
        #expect(!world.run(seconds: 10) { world.status.isConnected })
        #expect(world.status.counts.connections == 1 && world.status.cause.contains("(10008)"))
        #expect(world.status.obstacle(now: world.now)?.hasPrefix("NATS JetStream has not been reached yet: ") == true)
        world.cluster.isJetStreamAvailable = true
        #expect(world.run(seconds: 5) { world.status.isConnected } && world.status.cause == "")
        node.join(now: world.now)
        node.publish(now: world.now)
        #expect(world.run(seconds: 10) { node.received.count == 1 && node.isCurrent })
        world.cluster.isJetStreamAvailable = false
        let lost = world.now
        #expect(world.run(seconds: 10) { !world.status.isConnected })
        #expect(world.status.since >= lost && world.status.since <= lost + 5 * Limits.second)
        #expect(world.status.obstacle(now: world.now) == nil && node.left.isEmpty)
        #expect(world.run(seconds: 40) { !node.left.isEmpty })
        #expect(world.now - lost >= 30 * Limits.second)
        #expect(world.status.obstacle(now: world.now)?.hasPrefix("NATS has been unreachable for 30 s: ") == true)
        #expect(
            node.log.map(\.message) == [
                "NATS JetStream is not available", "connected to NATS", "NATS JetStream is not available",
            ])
    }

    /// One lost answer is no loss of the connection.
    @Test func aSingleAnswerMayBeLost() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        #expect(world.run(seconds: 10) { world.status.isConnected })
        for _ in 0..<10 {
            world.cluster.planned.lostAnswers = 1
            #expect(!world.run(seconds: 12) { !world.status.isConnected } && world.cluster.planned.lostAnswers == 0)
        }
    }

    /// A node that was away too long misses messages, but JetStream has lost none.
    @Test func whatLimitsHaveRemovedIsNotLost() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 2)
        for node in world.nodes { node.join(retain: 10, now: world.now) }
        world.nodes[1].publish(now: world.now)
        #expect(world.run(seconds: 20) { world.areDone() && world.truth.count == 1 })
        world.nodes[0].isCutOff = true
        world.nodes[0].breakConnection(now: world.now)
        for _ in 0..<50 { world.nodes[1].publish(now: world.now) }
        #expect(world.run(seconds: 20) { world.nodes[1].waiting.isEmpty })
        world.nodes[0].isCutOff = false
        #expect(world.run(seconds: 20) { world.nodes[0].received.last?.sequence == 51 })
        #expect(world.nodes[0].lost == Array(2...41) && world.status.counts.lost == 0)
    }
}

extension World {
    fileprivate var status: UpstreamStatus { nodes[0].upstream.status }
}
