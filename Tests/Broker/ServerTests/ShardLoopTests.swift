// The loop around a scripted engine: blocked writes, paused reading, closing, fairness, resets, draining.

import Core
import EventLoop
import Glibc
import Testing

@testable import Server

/// A loop on its own thread around a ScriptedEngine.
private final class Harness {
    let record = EngineRecord()
    let context: LoopContext
    private let listener: Int32
    private let port: UInt16
    private var thread: NamedThread?

    init(limits: Limits = Limits()) throws {
        context = LoopContext(
            limits: limits, memory: MemoryBudget(limit: limits.memory), inboxes: [try Inbox()],
            acceptor: try Inbox(), connections: ConnectionCount(limit: 100), log: try silentLog())
        listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        port = Socket.localAddress(listener)!.port
    }

    deinit {
        stop()
        close(listener)
        context.log.close()
    }

    func start() throws {
        thread = try NamedThread.start("loop") { [context, record] in
            try? ShardLoop(index: 0, context: context, shard: ScriptedEngine(record)).run()
        }
    }

    /// Stops the loop, after which the record is complete.
    func stop() {
        context.inboxes[0].push(.stop)
        thread?.join()
        thread = nil
    }

    func connect(receiveBuffer: Int32? = nil, wireProtocol: WireProtocol = .rsocket) throws -> TestClient {
        let client = try TestClient(port: port)
        let (fd, peer) = try #require(try Socket.accept(listener))
        Socket.configure(fd, userTimeout: 60_000)
        if var size = receiveBuffer {
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        #expect(context.connections.add())
        context.inboxes[0].push(.accepted(fd: fd, peer: peer.description, wireProtocol: wireProtocol))
        return client
    }

    /// Waits until the loop has notified the acceptor that it is idle.
    func waitIdle() throws -> Bool {
        var poller = try Poller()
        try poller.add(context.acceptor.descriptor, token: 0, interest: .read)
        return try poller.wait(timeout: patience) == 1
    }
}

struct ShardLoopTests {
    @Test func theEngineLearnsWhatAConnectionSpeaks() throws {
        let harness = try Harness()
        try harness.start()
        let faces: [WireProtocol] = [.http, .rsocket, .http]
        for wireProtocol in faces {
            let client = try harness.connect(wireProtocol: wireProtocol)
            // For HTTP, the input is passed on unchanged only if it begins like HTTP/2.
            try client.send(wireProtocol == .http ? "PRI close\n" : "close\n")
            #expect(try client.receiveAll() == Array("bye".utf8))
            client.disconnect()
        }
        harness.stop()
        #expect(harness.record.faces == faces)
    }

    @Test func aFloodArrivesWholeThroughBlockedWrites() throws {
        let harness = try Harness()
        try harness.start()
        let client = try harness.connect()
        let count = 16 << 20
        try client.send("flood \(count)\n")
        let bytes = try client.receiveAll()
        #expect(bytes.count == count)
        #expect(bytes.indices.allSatisfy { bytes[$0] == UInt8($0 % 251) })
        client.disconnect()
        harness.stop()
        #expect(harness.record.blocked > 0)
        // Each blocked write is followed by one call to the engine when the socket accepts bytes again.
        #expect(harness.record.writable == harness.record.blocked)
        #expect(harness.context.connections.value == 0)
    }

    @Test func aClosedConnectionsLastWordsSurviveUnreadInput() throws {
        let harness = try Harness()
        try harness.start()
        for _ in 0..<20 {
            let client = try harness.connect()
            // More than one read quantum, so that input remains when the engine closes.
            try client.send(Array("close ".utf8) + [UInt8](repeating: 0, count: 4 * Limits.readQuantum))
            #expect(try client.receiveAll() == Array("bye".utf8))
        }
    }

    @Test func aPeerThatNeverEndsIsClosedAfterTheTimeLimit() throws {
        var limits = Limits()
        limits.closeTime = 50_000_000
        let harness = try Harness(limits: limits)
        try harness.start()
        let client = try harness.connect()
        try client.send("close ")
        #expect(try client.receiveAll() == Array("bye".utf8))
        harness.context.inboxes[0].push(.drain)
        // The client has not closed its end: only the time limit can make the loop idle.
        #expect(try harness.waitIdle())
    }

    @Test func nothingIsReceivedWhileReadingIsPaused() throws {
        let harness = try Harness()
        try harness.start()
        let client = try harness.connect()
        try client.send("pause ")
        #expect(try client.receiveText(6) == "paused")
        try client.send([UInt8](repeating: 1, count: 1000))
        #expect(try client.receiveText(7) == "resumed")
        Socket.shutdownWrite(client.fd)
        #expect(try client.receiveAll() == [])
        harness.stop()
        #expect(harness.record.receivedWhilePaused == 0)
        #expect(harness.record.received.map(\.count).reduce(0, +) == 1006)
        #expect(harness.record.fired == 1)
        #expect(harness.record.ends == 1)
    }

    @Test func readyConnectionsAreReadInTurnByQuanta() throws {
        let harness = try Harness()
        let clients = try (0..<2).map { _ in try harness.connect(receiveBuffer: 1 << 20) }
        let block = [UInt8](repeating: 1, count: 4 << 20)
        var sent: [Int] = []
        for client in clients { sent.append(client.sendWhatFits(block)) }
        try #require(sent.min()! > 2 * Limits.readQuantum)
        for client in clients { Socket.shutdownWrite(client.fd) }
        // Only now does the loop start, with both sockets full.
        try harness.start()
        for client in clients { #expect(try client.receiveAll() == []) }
        harness.stop()
        let received = harness.record.received
        #expect(received.allSatisfy { $0.count <= Limits.readQuantum })
        #expect(received.map(\.count).reduce(0, +) == sent.reduce(0, +))
        // Both sockets are ready in every turn until one is empty.
        #expect(received[0].index != received[1].index)
        #expect(received[2].index != received[3].index)
    }

    @Test func messagesBetweenShardsDoNotKeepSocketsWaiting() throws {
        let harness = try Harness()
        try harness.start()
        let clients = try (0..<2).map { _ in try harness.connect() }
        try clients[0].send("busy ")
        #expect(try clients[0].receiveText(4) == "busy")
        // From now on the inbox is never empty at the end of a turn.
        try clients[1].send("calm ")
        #expect(try clients[1].receiveText(4) == "calm")
    }

    @Test func oneQueryIsAnsweredInEachTurnAfterTheSockets() throws {
        let harness = try Harness()
        let client = try harness.connect()
        for job in 0..<3 { harness.context.inboxes[0].push(.query(job: UInt64(job), .ping)) }
        try client.send("close ")
        // Only now does the loop start. The first turn adopts the connection, and the second reads from it.
        try harness.start()
        #expect(try client.receiveAll() == Array("bye".utf8))
        client.disconnect()
        harness.context.inboxes[0].push(.drain)
        #expect(try harness.waitIdle())
        harness.stop()
        #expect(harness.record.queriesBefore == [1])
        #expect(harness.record.queries == 3)
    }

    @Test func aResetIsToldOnceAndTheIndexIsFreeAgain() throws {
        let harness = try Harness()
        try harness.start()
        for _ in 0..<5 {
            let client = try harness.connect()
            try client.send("pause ")
            #expect(try client.receiveText(6) == "paused")
            // Whether or not reading is paused, the loop must notice the reset.
            client.reset()
        }
        harness.context.inboxes[0].push(.drain)
        #expect(try harness.waitIdle())
        harness.stop()
        #expect(harness.record.lost.count == 5)
        #expect(harness.record.lost.allSatisfy { $0 == "Connection reset by peer" || $0 == "Broken pipe" })
        #expect(harness.context.connections.value == 0)
    }

    @Test func aRefusedConnectionIsTheAcceptors() throws {
        let harness = try Harness()
        try harness.start()
        let first = try harness.connect()
        try first.send("refuse ")
        #expect(try first.receiveText(8) == "refusing")
        let second = try harness.connect()
        #expect(try harness.waitIdle(), "the acceptor is notified")
        var refused: [RefusedConnection] = []
        harness.context.acceptor.drain { if case .refuse(let connection) = $0 { refused.append(connection) } }
        #expect(refused.map(\.cause) == [.draining])
        for connection in refused { close(connection.fd) }
        #expect(try second.receiveAll() == [])
        harness.stop()
        #expect(harness.record.refused == 1)
        #expect(harness.context.connections.value == 0)
    }

    @Test func stoppingCutsConnectionsAndClosesThem() throws {
        let harness = try Harness()
        try harness.start()
        let client = try harness.connect()
        try client.send("flood \(64 << 20)\n")
        #expect(try client.receive(1) == [0])
        harness.stop()
        #expect(harness.context.connections.value == 0)
        // The client sees an end or a reset without having to wait.
        let rest = (try? client.receiveAll()) ?? []
        #expect(rest.count < 64 << 20)
    }

    @Test func aDrainWaitsForTheLastConnection() throws {
        let harness = try Harness()
        try harness.start()
        let client = try harness.connect()
        harness.context.inboxes[0].push(.drain)
        try client.send("flood 1000000\n")
        #expect(try client.receiveAll().count == 1_000_000)
        client.disconnect()
        #expect(try harness.waitIdle())
    }
}
