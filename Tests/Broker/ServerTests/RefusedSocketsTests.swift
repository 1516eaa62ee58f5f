// The responses to refused connections, by listener and first bytes, and the limit on the number of their sockets.

import Core
import EventLoop
import Glibc
import Testing

@testable import Server

@Suite struct RefusedSocketsTests {
    private let limits = Limits()
    private let cause = ConnectionRefusal.connectionsPerAddress(limit: 3)

    /// The server's end of a connection to be refused, and the client's.
    private func connection(_ wireProtocol: WireProtocol, isSecure: Bool = false) throws -> (
        RefusedConnection, client: Int32
    ) {
        let (theirs, ours) = try #require(Socket.pair(buffer: 4096))
        return (
            RefusedConnection(fd: theirs, peer: "a", wireProtocol: wireProtocol, isSecure: isSecure, cause: cause), ours
        )
    }

    /// Nil if there is nothing yet.
    private func received(_ client: Int32) -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let result = bytes.withUnsafeMutableBytes { Socket.read(client, into: $0) }
        switch result {
        case .bytes(let count): return String(decoding: bytes[..<count], as: UTF8.self)
        case .blocked: return nil
        case .end, .failed: return ""
        }
    }

    private func send(_ text: String, _ client: Int32) {
        _ = Array(text.utf8).withUnsafeBytes { Socket.write(client, $0) }
    }

    @Test func rsocketIsAnsweredAtOnce() throws {
        var refused = RefusedSockets()
        let poller = try Poller()
        let (connection, client) = try connection(.rsocket)
        defer { close(client) }
        refused.refuse(connection, limits, now: 0, poller)
        let text = try #require(received(client))
        #expect(text.hasSuffix("\u{3}limit: Your address has 3 connections, the maximum; close some."))
        #expect(received(client) == "" && refused.isLingering)
        refused.expire(now: limits.closeTime)
        #expect(refused.count == 0)
    }

    @Test(arguments: [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false, WireProtocol.http, "limit: Your address has 3 connections"),
        ("POST / HTTP/1.1\r\n\r\n", false, .http, "HTTP/1.1 503 Service Unavailable\r\n"),
        ("POST / HTTP/1.1\r\n\r\n", true, .http, "HTTP/1.1 400 Bad Request\r\n"),
        ("\u{0}\u{0}\u{9}", true, .rsocket, "This port speaks TLS; connect with rsockets://."),
        ("\u{16}\u{3}\u{1}", true, .rsocket, "\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}P"),
    ])
    func othersAreAnsweredByTheirFirstBytes(
        _ first: String, _ isSecure: Bool, _ wireProtocol: WireProtocol, _ answer: String
    ) throws {
        var refused = RefusedSockets()
        let poller = try Poller()
        let (connection, client) = try connection(wireProtocol, isSecure: isSecure)
        defer { close(client) }
        refused.refuse(connection, limits, now: 0, poller)
        refused.advance(0, limits, now: 1, poller)
        #expect(received(client) == nil && refused.count == 1 && refused.deadline == limits.setupTime)
        send(first, client)
        refused.advance(0, limits, now: 1, poller)
        let text = try #require(received(client))
        #expect(text.contains(answer), "\(text)")
        #expect(received(client) == "" && refused.isLingering && refused.deadline == limits.closeTime + 1)
        refused.closeAll()
        #expect(refused.count == 0)
    }

    @Test func soManyWaitAndNoMore() throws {
        var refused = RefusedSockets(limit: 4)
        let poller = try Poller()
        var clients: [Int32] = []
        for _ in 0..<10 {
            let (connection, client) = try connection(.http)
            clients.append(client)
            refused.refuse(connection, limits, now: 0, poller)
        }
        #expect(refused.count == 4)
        #expect(clients.map(received) == Array(repeating: "", count: 6) + Array(repeating: nil, count: 4))
        // A client in the middle closes.
        close(clients[7])
        refused.advance(7, limits, now: 0, poller)
        #expect(refused.count == 3 && refused.deadline == limits.setupTime)
        refused.expire(now: limits.setupTime)
        #expect(refused.count == 0 && refused.deadline == .max)
        for (index, client) in clients.enumerated() where index != 7 {
            #expect(received(client) == "")
            close(client)
        }
    }
}
