// The admin's thread beside shards that do not answer.

import Core
import EventLoop
import Testing

@testable import Server

struct AdminLoopTests {
    /// Two shards, of which one may answer pings.
    @Test(arguments: [[0, 1], [1]])
    func shardsThatHangAreToldAndHangNothing(hanging: [Int]) throws {
        let limits = Limits()
        var context = LoopContext(
            limits: limits, memory: MemoryBudget(limit: limits.memory), inboxes: [try Inbox(), try Inbox()],
            acceptor: try Inbox(), connections: ConnectionCount(limit: 1), log: try silentLog())
        var admin = try AdminThread(binding: Endpoint(host: "127.0.0.1", port: 0))
        context.admin = admin.inbox
        let started = context
        let shards = try [0, 1].filter { !hanging.contains($0) }.map { index in
            try NamedThread.start("shard") {
                let shard = Shard(
                    index: index, count: 2, limits: limits, memory: started.memory, seed: 1,
                    now: Instant(monotonic: Clock.monotonic(), wall: Clock.wall()))
                _ = try? ShardLoop(index: index, context: started, shard: shard).run()
            }
        }
        try admin.start(context, Server.Configuration(), [])
        let words = "shard \(hanging.map(String.init).joined(separator: ", ")) does not answer"
        for path in ["/healthz", "/readyz"] {
            let client = try TestClient(port: admin.addresses[0].port)
            try client.send(Array("GET \(path) HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".utf8))
            let answer = String(decoding: try client.receiveAll(), as: UTF8.self)
            #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.hasSuffix("\r\n\r\n\(words)\n"), "\(answer)")
            client.disconnect()
        }
        let client = try TestClient(port: admin.addresses[0].port)
        try client.send(Array("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".utf8))
        let metrics = String(decoding: try client.receiveAll(), as: UTF8.self)
        for shard in 0..<2 {
            let answered = hanging.contains(shard) ? 0 : 1
            #expect(metrics.contains("forebay_shard_responding{shard=\"\(shard)\"} \(answered)\n"))
        }
        client.disconnect()
        for inbox in context.inboxes { inbox.push(.stop) }
        for shard in shards { shard.join() }
        admin.stop()
        context.log.close()
    }
}
