// The gate of an admin listener with TLS, tested over pairs of sockets.

import Core
import EventLoop
import Glibc
import TLS
import TestCertificates
import Testing

@testable import Server

struct AdminGateTests {
    /// A gate, its poller, and a stand-in for the library.
    private struct Scene: ~Copyable {
        var gate: AdminGate
        var poller: Poller
        var limits = Limits()
        let log: Log
        var now: UInt64 = 1_000_000_000

        init() throws {
            let local = try TestCertificate.local.get()
            let settings = TLSServerSettings(certificate: local.certificate, key: local.key)
            let (server, log) = try (TLSServer(settings), silentLog())
            poller = try Poller()
            gate = AdminGate(server, log: log)
            self.log = log
        }

        /// The client's end of an accepted connection.
        mutating func connect() throws -> Int32 {
            let (theirs, ours) = try #require(Socket.pair(buffer: 32 << 10))
            try gate.take(ours, peer: "a peer", now: now, deadline: now + limits.setupTime, poller)
            return theirs
        }

        /// Handles what is ready now.
        mutating func turn() throws -> [AdminGate.Admitted] {
            var admitted: [AdminGate.Admitted] = []
            for event in 0..<(try poller.wait(timeout: 0)) {
                let (token, ready) = poller[event]
                if let one = gate.handle(Token(rawValue: token), ready, limits, now: now, poller) {
                    admitted.append(one)
                }
            }
            gate.tick(limits, now: now, poller)
            return admitted
        }

        deinit { log.close() }
    }

    private func received(_ fd: Int32) -> ReadResult {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { Socket.read(fd, into: $0) }
    }

    /// A client that was admitted, and the library's descriptor for it.
    private func admit(_ scene: inout Scene) throws -> (client: TLSStream, fd: Int32, AdminGate.Admitted) {
        let fd = try scene.connect()
        var wishes = TLSClientSettings()
        wishes.authority = try TestCertificate.local.get().certificate
        let client = try TLSStream(connecting: fd, to: "localhost", TLSContext(wishes), .http1)
        var admitted: [AdminGate.Admitted] = []
        for _ in 0..<100 where admitted.isEmpty {
            _ = client.handshake()
            admitted += try scene.turn()
        }
        #expect(client.handshake() == .done && client.agreed == "http/1.1")
        return (client, fd, try #require(admitted.first))
    }

    @Test func aConnectionIsServedBehindItsHandshakeAndLingersAtItsEnd() throws {
        var scene = try Scene()
        let (client, fd, one) = try admit(&scene)
        defer { close(fd) }
        #expect(one.peer == "a peer" && one.certificate == nil && scene.gate.handshakes.done == 1)
        // This counts as one connection, whether or not the library has it already.
        #expect(scene.gate.occupancy(0) == 1 && scene.gate.occupancy(1) == 1)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: TLSStream.record, alignment: 16)
        defer { buffer.deallocate() }
        _ = Array("to the library".utf8).withUnsafeBytes { client.write(record: $0) }
        _ = try scene.turn()
        #expect(Socket.read(one.socket, into: buffer) == .bytes(14))
        _ = Array("to the client".utf8).withUnsafeBytes { Socket.write(one.socket, $0) }
        close(one.socket)
        for _ in 0..<3 { _ = try scene.turn() }
        // The response follows the server's session tickets.
        var result = client.read(into: buffer)
        if result == .blocked { result = client.read(into: buffer) }
        #expect(result == .bytes(13) && client.read(into: buffer) == .end)
        #expect(scene.gate.occupancy(0) == 0)
    }

    @Test func aHandshakeHasItsTime() throws {
        var scene = try Scene()
        let fd = try scene.connect()
        defer { close(fd) }
        #expect(scene.gate.deadline == scene.now + scene.limits.setupTime && scene.gate.occupancy(0) == 1)
        scene.now += scene.limits.setupTime - 1
        _ = try scene.turn()
        #expect(received(fd) == .blocked && scene.gate.occupancy(0) == 1)
        scene.now += 1
        _ = try scene.turn()
        #expect(received(fd) == .end && scene.gate.occupancy(0) == 0)
        #expect(scene.gate.handshakes == HandshakeCounts(done: 0, failed: 1))
        // The connection lingers as long as a client is given to read the reason.
        #expect(scene.gate.deadline == scene.now + scene.limits.closeTime)
        scene.now += scene.limits.closeTime
        _ = try scene.turn()
        #expect(scene.gate.deadline > scene.now + scene.limits.closeTime)
    }

    @Test func theOldestHandshakeGivesWay() throws {
        var scene = try Scene()
        let first = try scene.connect()
        scene.now += 1
        let second = try scene.connect()
        defer { for fd in [first, second] { close(fd) } }
        let began = scene.now - 1
        let none = scene.gate.dropOldest(before: began)
        #expect(none == false && received(first) == .blocked)
        let one = scene.gate.dropOldest(before: scene.now)
        #expect(one == true && received(first) == .end && received(second) == .blocked)
        #expect(scene.gate.occupancy(0) == 1 && scene.gate.handshakes.failed == 1)
    }

    /// The library has finished with a client that reads nothing: its last output is not kept forever.
    @Test func whoReadsNothingIsEnded() throws {
        var scene = try Scene()
        let (_, fd, one) = try admit(&scene)
        defer { close(fd) }
        let bytes = [UInt8](repeating: 1, count: 16 << 10)
        var isFull = false
        for _ in 0..<1000 where !isFull {
            isFull = bytes.withUnsafeBytes { Socket.write(one.socket, $0) } == .blocked
            _ = try scene.turn()
        }
        #expect(isFull && !Socket.hasHungUp(one.socket))
        // Until the library closes its end, it is responsible for the connection.
        scene.now += 2 * AdminLimits.silence
        _ = try scene.turn()
        #expect(scene.gate.hasRelays == true)
        close(one.socket)
        _ = try scene.turn()
        #expect(scene.gate.hasRelays == false)
    }

    /// Clients without TLS that have not read the reason.
    @Test func fewLinger() throws {
        var scene = try Scene()
        var clients: [Int32] = []
        for _ in 0...AdminLimits.lingering {
            clients.append(try scene.connect())
            _ = [UInt8(1)].withUnsafeBytes { Socket.write(clients.last!, $0) }
            _ = try scene.turn()
        }
        #expect(scene.gate.handshakes.failed == UInt64(clients.count))
        #expect(clients.map { Socket.hasHungUp($0) } == [true] + clients.dropFirst().map { _ in false })
        for client in clients { close(client) }
    }

    @Test func whoDoesNotSpeakTLSIsToldOfIt() throws {
        var scene = try Scene()
        let fd = try scene.connect()
        defer { close(fd) }
        _ = Array("GET / HTTP/1.1\r\n\r\n".utf8).withUnsafeBytes { Socket.write(fd, $0) }
        _ = try scene.turn()
        guard case .bytes = received(fd) else {
            Issue.record("nothing was said")
            return
        }
        #expect(received(fd) == .end && scene.gate.handshakes.failed == 1)
    }
}
