// Streams over HTTP/1.1 in a loop with the broker's own engine: who owns their sockets, and what becomes of the
// library's connections.

import EventLoop
import Glibc
import Testing

@testable import Core
@testable import Server

/// A loop that the test drives.
private final class TurnedLoop {
    let context: LoopContext
    let loop: ShardLoop<Shard>
    private let listener: Int32
    private let port: UInt16
    /// The clients are kept here because a client closes when its test no longer holds it.
    private var clients: [TestClient] = []

    init() throws {
        let limits = Limits()
        context = LoopContext(
            limits: limits, memory: MemoryBudget(limit: limits.memory), inboxes: [try Inbox()],
            acceptor: try Inbox(), connections: ConnectionCount(limit: 1000), log: try silentLog())
        let now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        let shard = Shard(index: 0, count: 1, limits: limits, memory: context.memory, seed: 7, now: now)
        loop = try ShardLoop(index: 0, context: context, shard: shard)
        listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        port = Socket.localAddress(listener)!.port
    }

    deinit {
        close(listener)
        context.log.close()
    }

    func connect() throws -> TestClient {
        let client = try TestClient(port: port)
        clients.append(client)
        let (fd, peer) = try #require(try Socket.accept(listener))
        Socket.configure(fd, userTimeout: 60_000)
        #expect(context.connections.add())
        context.inboxes[0].push(.accepted(fd: fd, peer: peer.description, wireProtocol: .http))
        return client
    }

    /// Runs turns until `condition` holds. A turn takes at most a tick.
    func turn(until condition: () -> Bool) throws {
        let deadline = Clock.monotonic() + patience
        while !condition() {
            try #require(Clock.monotonic() < deadline, "it never became true")
            try loop.step()
        }
    }

    func stop() throws {
        context.inboxes[0].push(.stop)
        try loop.run()
    }
}

struct HTTP1StreamsTests {
    private static let host = "HTTP/1.1\r\nHost: localhost\r\n"
    private static let stream = "GET /v1/topics/t/messages \(host)\r\n"

    /// The library visits all its waiting connections whenever one of them makes progress, so no connection that may
    /// wait forever may be among them.
    @Test func streamsAreNotTheLibrarys() throws {
        let turned = try TurnedLoop()
        let readers = try (0..<50).map { _ in try turned.connect() }
        for reader in readers { try reader.send(HTTP1StreamsTests.stream) }
        try turned.turn { turned.loop.shard.parts.tables.subscriptions.count == 50 && turned.loop.http1.count == 0 }
        let writer = try turned.connect()
        try writer.send("POST /v1/topics/t/messages \(HTTP1StreamsTests.host)Content-Length: 1\r\n\r\nx")
        try turned.turn { turned.loop.http1.count == 1 && turned.loop.connections.count == 51 }
        for reader in readers {
            var text = ""
            try turned.turn {
                var bytes = [UInt8](repeating: 0, count: 4096)
                if case .bytes(let count) = bytes.withUnsafeMutableBytes({ Socket.read(reader.fd, into: $0) }) {
                    text += String(decoding: bytes[..<count], as: UTF8.self)
                }
                return text.contains("data: x\n")
            }
            #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
        for reader in readers { reader.disconnect() }
        try turned.turn { turned.loop.connections.count == 1 }
        #expect(turned.loop.shard.parts.tables.subscriptions.count == 0)
        try turned.stop()
        #expect(turned.context.connections.value == 0)
    }

    /// The library is still reading a request when its response begins.
    @Test(arguments: [
        "Content-Length: 3\r\n\r\n", "Content-Length: 3\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n3\r\na",
        "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", "\r\nGET / HTTP/1.1\r\nHo",
    ])
    func aStreamThatBeginsAheadOfItsBodyIsNotTheLibrarys(rest: String) throws {
        let turned = try TurnedLoop()
        let reader = try turned.connect()
        try reader.send("GET /v1/topics/t/messages \(HTTP1StreamsTests.host)\(rest)")
        try turned.turn { turned.loop.shard.parts.tables.subscriptions.count == 1 && turned.loop.http1.count == 0 }
        #expect(turned.loop.connections.count == 1)
        reader.reset()
        try turned.turn {
            turned.loop.connections.count == 0 && turned.loop.shard.parts.tables.subscriptions.count == 0
        }
        try turned.stop()
    }

    /// Many of the library's operations visit all connections of an instance.
    @Test func anInstanceOfTheLibraryHasFewConnections() throws {
        let turned = try TurnedLoop()
        let most = HTTP1Drivers<Shard>.most
        let clients = try (0..<most + 10).map { _ in try turned.connect() }
        for client in clients { try client.send("GET /nothing \(HTTP1StreamsTests.host)\r\n") }
        try turned.turn { turned.loop.http1.count == most + 10 }
        #expect(turned.loop.http1.drivers.map(\.count) == [most, 10])
        for client in clients.prefix(5) { client.disconnect() }
        try turned.turn { turned.loop.http1.count == most + 5 }
        // The first instance has room again, but the second is used until it is full.
        let more = try turned.connect()
        try more.send("GET /nothing \(HTTP1StreamsTests.host)\r\n")
        try turned.turn { turned.loop.http1.count == most + 6 }
        #expect(turned.loop.http1.drivers.map(\.count) == [most - 5, 11])
        try turned.stop()
    }
}
