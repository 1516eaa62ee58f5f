// Connections: keepalive, limits, the faults of connections, and input of any kind.

import JetStreamModel
import Testing

@Suite struct ConnectionTests {
    private static let connect = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n"

    private func received(_ cluster: ModelCluster, _ id: ConnectionID) -> String {
        String(decoding: cluster.takeOutput(of: id), as: UTF8.self)
    }

    @Test func infoComesFirst() throws {
        var options = ModelOptions()
        options.maxPayload = 100
        let cluster = ModelCluster(seed: 1, options: options)
        let id = cluster.connect(now: 0)
        let info = received(cluster, id)
        #expect(info.hasPrefix("INFO {\"server_id\":") && info.hasSuffix("} \r\n"))
        for member in ["\"version\":\"2.15.1\"", "\"headers\":true", "\"jetstream\":true", "\"max_payload\":100"] {
            #expect(info.contains(member))
        }
        cluster.receive("PUB a 101\r\n".utf8, on: id, now: 0)
        #expect(received(cluster, id) == "-ERR 'Maximum Payload Violation'\r\n" && !cluster.isOpen(id))
    }

    @Test func bytesMayArriveInPieces() {
        let cluster = ModelCluster(seed: 1)
        let id = cluster.connect(now: 0)
        _ = received(cluster, id)
        for byte in (Self.connect + "SUB a 1\r\nPUB a 5\r\nhe\r\no\r\nPING\r\n").utf8 {
            cluster.receive([byte], on: id, now: 0)
        }
        #expect(received(cluster, id) == "MSG a 1 5\r\nhe\r\no\r\nPONG\r\n")
    }

    @Test func aClientThatDoesNotAnswerPingsIsDisconnected() throws {
        var options = ModelOptions()
        options.pingInterval = 10
        let cluster = ModelCluster(seed: 1, options: options)
        let (silent, alive) = (cluster.connect(now: 0), cluster.connect(now: 0))
        for id in [silent, alive] { _ = received(cluster, id) }
        for _ in 0..<2 {
            cluster.tick(now: try #require(cluster.deadline))
            for id in [silent, alive] { #expect(received(cluster, id) == "PING\r\n") }
            cluster.receive("PONG\r\n".utf8, on: alive, now: 0)
        }
        while cluster.isOpen(silent) {
            cluster.tick(now: try #require(cluster.deadline))
            cluster.receive("PONG\r\n".utf8, on: alive, now: 0)
        }
        #expect(received(cluster, silent).hasSuffix("-ERR 'Stale Connection'\r\n") && cluster.isOpen(alive))
    }

    @Test func aClientThatReadsTooSlowlyIsDisconnected() {
        var options = ModelOptions()
        options.maxPending = 1_000
        let cluster = ModelCluster(seed: 1, options: options)
        let (slow, publisher) = (cluster.connect(now: 0), cluster.connect(now: 0))
        cluster.receive("SUB a 1\r\n".utf8, on: slow, now: 0)
        for _ in 0..<100 { cluster.receive("PUB a 1\r\nx\r\n".utf8, on: publisher, now: 0) }
        #expect(!cluster.isOpen(slow))
        _ = cluster.takeOutput(of: publisher)
    }

    @Test func nothingPassesAPartition() {
        let world = World()
        let other = world.cluster.connect(now: world.now)
        world.cluster.receive((Self.connect + "SUB fb.l.t 1\r\n").utf8, on: other, now: world.now)
        _ = world.cluster.takeOutput(of: other)
        world.cluster.partition(world.client)
        #expect(world.publish("one").isEmpty && world.truth.messages.isEmpty && world.cluster.isOpen(world.client))
        world.cluster.receive("PUB fb.p.-.t 1\r\nx\r\n".utf8, on: other, now: world.now)
        #expect(world.take().isEmpty && received(world.cluster, other).contains("Nats-Sequence: 1\r\n"))
        world.cluster.disconnect(world.client)
        #expect(!world.cluster.isOpen(world.client))
    }

    @Test func aServerShutsDown() {
        let world = World()
        world.cluster.enterLameDuckMode(now: world.now)
        #expect(received(world.cluster, world.client).contains("\"ldm\":true"))
        world.cluster.close(world.client)
        #expect(!world.cluster.isOpen(world.client) && world.publish("x").isEmpty && world.truth.messages.isEmpty)
        let next = world.cluster.connect(now: world.now)
        #expect(!received(world.cluster, next).contains("ldm"))
        world.cluster.closeAll()
        #expect(!world.cluster.isOpen(next))
    }

    @Test func oneMemberOfAQueueGroupReceives() {
        let cluster = ModelCluster(seed: 1)
        let ids = (0..<3).map { _ in cluster.connect(now: 0) }
        for id in ids { cluster.receive((Self.connect + "SUB a g 1\r\n").utf8, on: id, now: 0) }
        for id in ids { _ = cluster.takeOutput(of: id) }
        for _ in 0..<60 { cluster.receive("PUB a 1\r\nx\r\n".utf8, on: ids[0], now: 0) }
        let counts = ids.map { received(cluster, $0).split(separator: "\r\n").count { $0 == "x" } }
        #expect(counts.reduce(0, +) == 60 && !counts.contains(0))
    }

    /// The same seed and the same input give the same bytes; another seed gives others.
    @Test func aSeedReplays() {
        func run(_ seed: UInt64) -> [String] {
            let world = World(seed: seed, servers: 3) {
                ($0.answerDelay, $0.acknowledgementDelay, $0.liveDelay, $0.commitDelay) = (90, 90, 90, 90)
                ($0.lostAcknowledgements, $0.lostRepublished, $0.lostAnswers, $0.duplicates) = (5, 5, 5, 5)
                ($0.lagging, $0.clockSkew, $0.electionTime) = (2, 1_000, 50)
            }
            var lines: [String] = []
            for index in 0..<200 {
                world.send(world.publication("\(index)", reply: "_INBOX.\(index)", id: "\(index % 150)"))
                if index % 7 == 0 {
                    world.send("PUB $JS.API.DIRECT.GET.FB_1 _INBOX.d 20\r\n{\"seq\":1,\"batch\":100}\r\n")
                }
                if index % 50 == 49 { world.cluster.changeLeader(of: "FB_1", now: world.now) }
                world.now += 20
                lines.append(received(world.cluster, world.client))
            }
            return lines + ["\(world.cluster.acknowledged)", "\(world.truth)"]
        }
        for seed: UInt64 in 1...5 { #expect(run(seed) == run(seed)) }
        #expect(run(1) != run(2))
    }

    /// Input of any kind is answered or refused.
    @Test func noInputTraps() {
        var number: UInt64 = 1
        func random(_ bound: Int) -> Int {
            number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(number >> 33) % bound
        }
        let valid = Case.all.flatMap(\.steps).map { Array($0.sent.utf8) }
        for round in 0..<15 {
            var options = ModelOptions()
            options.servers = 1 + round % 3
            let cluster = ModelCluster(seed: UInt64(round), options: options)
            var id = cluster.connect(now: 0)
            for step in 0..<200 {
                var bytes = valid[random(valid.count)]
                for _ in 0..<random(4) where !bytes.isEmpty {
                    let index = random(bytes.count)
                    switch random(3) {
                    case 0: bytes[index] = UInt8(random(256))
                    case 1: bytes.remove(at: index)
                    default: bytes.insert(UInt8(ascii: "9"), at: index)
                    }
                }
                cluster.receive(bytes, on: id, now: step % 50 == 0 ? .max : UInt64(step))
                _ = cluster.takeOutput(of: id)
                if !cluster.isOpen(id) {
                    cluster.disconnect(id)
                    id = cluster.connect(now: 0)
                }
                _ = cluster.deadline
            }
        }
    }
}
