// The admin thread with shards that do not answer.

import Access
import Core
import EventLoop
import Testing

@testable import Server

struct AdminLoopTests {
    /// Two shards, one of which may answer pings.
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
        let words = "shard \(hanging.map(String.init).joined(separator: ", ")) is not responding"
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

    /// Queries to a shard that does not answer; later queries wait until the earlier ones time out.
    @Test func fewQuestionsAreAskedAtATime() throws {
        let limits = Limits()
        var context = LoopContext(
            limits: limits, memory: MemoryBudget(limit: limits.memory), inboxes: [try Inbox()],
            acceptor: try Inbox(), connections: ConnectionCount(limit: 1), log: try silentLog())
        var admin = try AdminThread(binding: Endpoint(host: "127.0.0.1", port: 0))
        context.admin = admin.inbox
        try admin.start(context, Server.Configuration(), [])
        let began = Clock.monotonic()
        func ask(_ path: String) throws -> TestClient {
            let client = try TestClient(port: admin.addresses[0].port)
            try client.send(Array("GET \(path) HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".utf8))
            return client
        }
        let waiting = try (0..<AdminLimits.jobs + 2).map { _ in try ask("/metrics") }
        // This request needs no shard, so it is answered at once; when it is answered, all earlier requests have been
        // processed.
        #expect(String(decoding: try ask("/style.css").receiveAll(), as: UTF8.self).hasPrefix("HTTP/1.1 200 "))
        var questions = 0
        context.inboxes[0].drain { if case .query = $0 { questions += 1 } }
        if Clock.monotonic() - began < AdminLimits.patience { #expect(questions == AdminLimits.jobs) }
        for client in waiting {
            #expect(String(decoding: try client.receiveAll(), as: UTF8.self).hasPrefix("HTTP/1.1 200 "))
        }
        admin.stop()
        context.log.close()
    }

    /// Credentials may be accepted under permissions that no longer apply when the check completes.
    @Test(arguments: [true, false])
    func aLoginIsCountedOnce(isWithdrawn: Bool) throws {
        var user = UserSettings(name: "alice", password: PasswordHash.make(of: Array("secret".utf8)))
        user.permissions = PermissionSettings(control: ["$SYS.stats"])
        var settings = AccessSettings()
        settings.users = [user]
        let rules = try AccessRules(settings)
        settings.users = [UserSettings(name: "bob", password: user.password)]
        let others = try AccessRules(settings)
        // The login threads' results pass through the test first.
        let answers = try Inbox<AdminItem>()
        let inboxes = [try Inbox<InboxItem>()]
        let log = try silentLog()
        let service = try LoginService(rules, inboxes: inboxes, admin: answers, log: log)
        let limits = Limits()
        var context = LoopContext(
            limits: limits, memory: MemoryBudget(limit: limits.memory), inboxes: inboxes, acceptor: try Inbox(),
            connections: ConnectionCount(limit: 1), logins: service, access: rules.table, log: log)
        var admin = try AdminThread(binding: Endpoint(host: "127.0.0.1", port: 0))
        context.admin = admin.inbox
        try admin.start(context, Server.Configuration(), [])
        let client = try TestClient(port: admin.addresses[0].port)
        let request = "GET /api/v1/stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        try client.send(Array((request + "authorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n").utf8))
        var poller = try Poller()
        try poller.add(answers.descriptor, token: 0, interest: .read)
        #expect(try poller.wait(timeout: patience) == 1)
        if isWithdrawn { admin.inbox?.push(.access(others.table)) }
        answers.drain { admin.inbox?.push($0) }
        // No shard answers the client's query.
        let answer = String(decoding: try client.receiveAll(), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 \(isWithdrawn ? 401 : 200) "), "\(answer)")
        client.disconnect()
        var counted: [LoginResult] = []
        inboxes[0].drain { if case .login(let result) = $0 { counted.append(result) } }
        #expect(counted == [isWithdrawn ? .refused : .accepted])
        admin.stop()
        service.stop()
        log.close()
    }
}
