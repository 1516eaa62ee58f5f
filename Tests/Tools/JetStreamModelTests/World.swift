// A model with a stream and one client, for tests.

import JetStreamModel
import Testing

final class World {
    let cluster: ModelCluster
    let client: ConnectionID
    var now: UInt64 = 1_000_000

    /// The stream `FB_1` stores `fb.p.*.t` and republishes it to `fb.l.t`. Its messages expire after a second, and ids
    /// after half of that. Faults begin after it is created. The client has subscribed to `_INBOX.>` and `fb.l.>`.
    init(seed: UInt64 = 1, servers: Int = 1, _ setFaults: (inout ModelFaults) -> Void = { _ in }) {
        var options = ModelOptions()
        options.servers = servers
        options.pingInterval = 0
        cluster = ModelCluster(seed: seed, options: options)
        client = cluster.connect(now: now)
        send(
            "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB _INBOX.> 1\r\nSUB fb.l.> 2\r\n")
        let created = ask(
            "STREAM.CREATE.FB_1",
            """
            {"name":"FB_1","subjects":["fb.p.*.t"],"republish":{"src":"fb.p.*.t","dest":"fb.l.t"},"allow_direct":true,\
            "max_age":1000000000,"duplicate_window":500000000,"num_replicas":\(servers)}
            """)
        precondition(created.contains { $0.payload.contains("did_create") })
        setFaults(&cluster.faults)
    }

    var truth: StreamTruth { cluster.stream(named: "FB_1")! }

    func send(_ text: String) { cluster.receive(text.utf8, on: client, now: now) }

    /// What has arrived, without INFO.
    func take() -> [Operation] {
        (Operation.split(cluster.takeOutput(of: client)) ?? []).filter { $0.words[0] != "INFO" }
    }

    /// Lets all time pass that something waits for, except for messages that expire; returns what has arrived.
    func finish() -> [Operation] {
        var received = take()
        while let deadline = cluster.deadline, deadline < now + 1_000_000 {
            now = deadline
            cluster.tick(now: now)
            received += take()
        }
        return received
    }

    func publication(_ payload: String, reply: String, id: String? = nil, headers: [(String, String)] = []) -> String {
        let all = headers + (id.map { [("Nats-Msg-Id", $0)] } ?? [])
        guard !all.isEmpty else { return "PUB fb.p.-.t \(reply) \(payload.utf8.count)\r\n\(payload)\r\n" }
        let block = "NATS/1.0\r\n" + all.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n"
        let sizes = "\(block.utf8.count) \(block.utf8.count + payload.utf8.count)"
        return "HPUB fb.p.-.t \(reply) \(sizes)\r\n\(block)\(payload)\r\n"
    }

    /// Publishes, and returns what arrives at once.
    func publish(_ payload: String, id: String? = nil, headers: [(String, String)] = []) -> [Operation] {
        send(publication(payload, reply: "_INBOX.a", id: id, headers: headers))
        return take()
    }

    /// Makes a request, and returns what arrives until nothing is waited for.
    func ask(_ call: String, _ payload: String = "") -> [Operation] {
        send("PUB $JS.API.\(call) _INBOX.r \(payload.utf8.count)\r\n\(payload)\r\n")
        return finish()
    }
}

extension Operation {
    var isAcknowledgement: Bool { subject == "_INBOX.a" && payload.hasPrefix("{\"stream\"") }
}
