// A broker's start and end: bad input, draining, stopping.

import EventLoop
import Glibc
import Testing

@testable import Server

struct ServerTests {
    private func start(_ log: Log, threads: Int = 2, connections: Int = 1000) throws -> Server {
        var configuration = Server.Configuration(listen: Endpoint(host: "127.0.0.1", port: 0), threads: threads)
        configuration.limits.connections = connections
        return try Server(configuration, log: log)
    }

    /// Three bytes of length, then a frame too short for a header: the broker cannot continue.
    private let garbage: [UInt8] = [0, 0, 2, 0xFF, 0xFF]

    @Test func badInputClosesThatConnectionOnEveryShard() throws {
        let log = try silentLog()
        let server = try start(log)
        let clients = try (0..<20).map { _ in try TestClient(port: server.addresses(.rsocket)[0].port) }
        for client in clients {
            // The broker may close before it has read anything.
            try? client.send(garbage)
            _ = try? client.receiveAll()
            client.disconnect()
        }
        server.drain()
        #expect(server.wait())
        #expect(server.connectionCount == 0)
        log.close()
    }

    @Test func aStoppedServerListensNoMore() throws {
        let log = try silentLog()
        let server = try start(log, threads: 1)
        let port = server.addresses(.rsocket)[0].port
        let client = try TestClient(port: port)
        server.stop()
        #expect(server.wait())
        #expect(server.connectionCount == 0)
        var poller = try Poller()
        try poller.add(server.finished.descriptor, token: 0, interest: .read)
        #expect(try poller.wait(timeout: patience) == 1)
        // An end or a reset: the client notices either.
        _ = try? client.receiveAll()
        #expect(throws: SystemError.self) { try TestClient(port: port) }
        log.close()
    }

    @Test func aDrainEndsAnIdleServer() throws {
        let log = try silentLog()
        let server = try start(log, threads: 3)
        server.drain()
        server.drain()
        #expect(server.wait())
        log.close()
    }
}
