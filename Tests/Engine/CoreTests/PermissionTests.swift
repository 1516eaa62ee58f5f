// Each permission against each interaction, over every protocol: an interaction succeeds with the permissions that it
// needs, and fails if one of them is missing.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct PermissionTests {
    /// A request, and the permissions that it needs on its topic, `t`.
    struct Interaction: Sendable, CustomTestStringConvertible {
        var name: String
        var needs: [Permission]
        var topic = "t"
        var testDescription: String { name }
    }

    /// All permissions on the topic except `missing`, which is granted for another topic.
    private static func permissions(without missing: Permission?, on topic: String) -> Permissions {
        func set(_ permission: Permission) -> TopicSet {
            permission == missing ? topics("other") : topics("other", topic)
        }
        return Permissions(
            publish: set(.publish), subscribe: set(.subscribe), control: set(.control), block: set(.block))
    }

    /// Each missing permission in turn, and whether the interaction is allowed nevertheless.
    private static func cases(_ interaction: Interaction) -> [(missing: Permission?, isAllowed: Bool)] {
        [(nil, true)] + Permission.allCases.map { ($0, !interaction.needs.contains($0)) }
    }

    // RSocket

    static let rsocket: [Interaction] = [
        Interaction(name: "subscribe", needs: [.subscribe]),
        Interaction(name: "subscribe block", needs: [.subscribe, .block]),
        Interaction(name: "events", needs: [.control], topic: "$SYS.events"),
        Interaction(name: "stats", needs: [.control], topic: "$SYS.stats"),
        Interaction(name: "fire", needs: [.publish]), Interaction(name: "publish", needs: [.publish]),
        Interaction(name: "channel", needs: [.publish]),
        Interaction(name: "complete", needs: [.control]), Interaction(name: "fail", needs: [.control]),
        Interaction(name: "delete", needs: [.control]),
    ]

    private func ask(_ name: String, _ client: TestClient) {
        switch name {
        case "subscribe": client.subscribe("t")
        case "subscribe block": client.subscribe("t?overflow=block")
        case "events": client.subscribe("$SYS.events", n: 1)
        case "stats": client.subscribe("$SYS.stats", n: 1)
        case "fire": client.fireAndForget("t", "new")
        case "publish": client.publish("t", "new")
        case "channel": client.channel("t", "new")
        default: client.publish("$SYS.topic.\(name)?name=t", "")
        }
    }

    @Test(arguments: rsocket) func rsocketAsksForWhatItNeeds(_ interaction: Interaction) {
        for shards in [1, 2] {
            for (missing, isAllowed) in PermissionTests.cases(interaction) {
                let permissions = PermissionTests.permissions(without: missing, on: interaction.topic)
                let table = AccessTable.users(["alice": permissions, "root": .all])
                let broker = TestBroker(shards: shards, access: table)
                let root = broker.logIn("root", of: table, shard: shards - 1)
                root.publish("t", "old")
                _ = root.received()
                let client = broker.logIn("alice", of: table)
                ask(interaction.name, client)
                let lines = client.received()
                let isDenied = lines.contains { $0.contains("! 202 forbidden: User 'alice' may not ") }
                if interaction.name == "fire" {
                    root.publish("$SYS.topic.info?name=t", "")
                    let published = root.received().joined().contains("\"next\":\(isAllowed ? 3 : 2),")
                    #expect(published && lines.isEmpty, "\(missing as Any)")
                } else {
                    #expect(isDenied == !isAllowed, "without \(missing as Any): \(lines)")
                    if isDenied { #expect(lines.count == 1) }
                }
            }
        }
    }

    @Test func aTopicThatMayBeSeenMayBeAskedAbout() {
        for (permissions, isAllowed) in [
            (Permissions(publish: topics("t")), true), (Permissions(subscribe: topics("t")), true),
            (Permissions(control: topics("t")), true), (Permissions(block: topics("t")), false), (.none, false),
        ] {
            let table = AccessTable.users(["alice": permissions])
            let broker = TestBroker(access: table)
            let client = broker.logIn("alice", of: table)
            client.publish("$SYS.topic.info?name=t", "")
            // A user who may not see a topic must not learn whether it exists, either.
            let expected =
                isAllowed
                ? "3:! 202 not-found: There is no topic"
                : "3:! 202 forbidden: User 'alice' may not publish to, subscribe to or control 't'"
            #expect(client.received().first?.hasPrefix(expected) == true)
        }
    }

    @Test func aRouteThatOthersMayPublishToIsStillAskedAbout() {
        let table = AccessTable.users(["alice": Permissions(publish: topics("a")), "root": .all])
        let broker = TestBroker(access: table)
        let root = broker.logIn("root", of: table)
        let client = broker.logIn("alice", of: table)
        for _ in 0..<2 {
            root.publish("b", "x")
            client.publish("a", "x")
            client.publish("b", "x", stream: 7)
            let lines = client.received()
            #expect(
                lines.count == 2 && lines[0].hasPrefix("3:") && lines[1].hasPrefix("7:! 202 forbidden: User 'alice'"),
                "\(lines)")
            _ = root.received()
        }
    }

    /// For a user who may see little, whole tables are not scanned in one step.
    @Test func aPageLooksAtSoManyPlaces() {
        let table = AccessTable.users(["alice": Permissions(subscribe: topics("last")), "root": .all])
        let broker = TestBroker(access: table)
        let root = broker.logIn("root", of: table)
        for number in 0..<ListStream.places { root.fireAndForget("topic\(number)", "x") }
        root.fireAndForget("last", "x")
        let alice = table.user("alice")!.permissions
        let shard = broker.shards[0]
        let principal = Principal(user: "alice", permissions: alice, proof: .none)
        let first = shard.parts.requests.listRequests.rows(of: .topics, after: 0, for: principal, now: broker.now)
        #expect(first.rows.isEmpty && first.next == ListStream.places)
        #expect(
            shard.parts.requests.listRequests.rows(of: .topics, after: .max, for: principal, now: broker.now).next
                == nil
        )
        let client = broker.logIn("alice", of: table)
        client.subscribe("$SYS.topics")
        let lines = client.received()
        #expect(lines.count == 2 && lines[0].contains("\"name\":\"last\"") && lines[1] == "1:|")
    }

    @Test func listsShowWhatMayBeSeen() {
        let table = AccessTable.users([
            "alice": Permissions(publish: topics("a"), subscribe: topics("b"), control: topics("c")),
            "bob": Permissions(subscribe: topics(">"), control: topics("$SYS.>", ">")), "root": .all,
        ])
        for shards in [1, 2] {
            let broker = TestBroker(shards: shards, access: table)
            let clients = ["alice", "bob", "root"].enumerated().map { index, name in
                broker.logIn(name, of: table, shard: index % shards)
            }
            for topic in ["a", "b", "c", "d"] { clients[2].publish(topic, "x") }
            for (stream, topic) in zip([11, 13, 15, 17] as [UInt32], ["a", "b", "c", "d"]) {
                clients[1].subscribe(topic, n: 1, stream: stream)
            }
            clients[0].subscribe("b", n: 1, stream: 11)
            func list(_ name: String, _ key: String, _ client: TestClient) -> [String] {
                _ = client.received()
                client.subscribe(name, stream: 101)
                return client.received().compactMap { line in
                    guard let start = line.firstRange(of: "\"\(key)\":\"")?.upperBound else { return nil }
                    return String(line[start...].prefix { $0 != "\"" })
                }.sorted()
            }
            #expect(list("$SYS.topics", "name", clients[0]) == ["a", "b", "c"])
            #expect(list("$SYS.topics", "name", clients[1]) == ["$SYS.events", "a", "b", "c", "d"])
            // Her own subscriptions, and all those that she controls.
            #expect(list("$SYS.subscriptions", "topic", clients[0]) == ["b", "c"])
            #expect(list("$SYS.subscriptions", "topic", clients[1]) == ["a", "b", "b", "c", "d"])
            #expect(list("$SYS.connections", "user", clients[0]) == ["alice"])
            #expect(list("$SYS.connections", "user", clients[1]) == ["alice", "bob", "root"])
        }
    }

    // gRPC

    static let grpc: [Interaction] = [
        Interaction(name: "Subscribe", needs: [.subscribe]),
        Interaction(name: "Subscribe block", needs: [.subscribe, .block]),
        Interaction(name: "Publish", needs: [.publish]), Interaction(name: "PublishOne", needs: [.publish]),
        Interaction(name: "CompleteTopic", needs: [.control]), Interaction(name: "FailTopic", needs: [.control]),
        Interaction(name: "DeleteTopic", needs: [.control]),
    ]

    private func call(_ name: String, _ client: GRPCClient) -> UInt32 {
        let basic = "Basic YWxpY2U6c2VjcmV0"
        switch name {
        case "Subscribe":
            return client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x74, 0x10, 1], end: false, authorization: basic)
        case "Subscribe block":
            return client.call(
                .subscribe, [0x0A, 7, 0x0A, 1, 0x74, 0x10, 1, 0x40, 5], end: false, authorization: basic)
        case "Publish": return client.call(.publish, [0x0A, 3, 0x0A, 1, 0x74], end: false, authorization: basic)
        case "PublishOne":
            return client.call(.publishOne, field(1, "t") + [0x12, 3, 0x12, 1, 0x61], authorization: basic)
        default:
            return client.call(GRPCMethod(rawValue: "/forebay.v1.Admin/\(name)")!, field(1, "t"), authorization: basic)
        }
    }

    @Test(arguments: grpc) func grpcAsksForWhatItNeeds(_ interaction: Interaction) {
        for (missing, isAllowed) in PermissionTests.cases(interaction) {
            let table = AccessTable.users([
                "alice": PermissionTests.permissions(without: missing, on: "t"), "root": .all,
            ])
            let broker = TestBroker(access: table)
            broker.logIn("root", of: table).publish("t", "old")
            let client = GRPCClient(broker)
            let stream = call(interaction.name, client)
            broker.answerLogin(.user("alice", of: table))
            let answer = client.answer(stream)
            #expect((answer.status == "7") == !isAllowed, "without \(missing as Any): \(answer)")
            if !isAllowed { #expect(answer.text.hasPrefix("forbidden: User 'alice' may not ")) }
        }
    }

    // Plain HTTP

    static let plain: [Interaction] = [
        Interaction(name: "GET /v1/topics/t/messages", needs: [.subscribe]),
        Interaction(name: "HEAD /v1/topics/t/messages", needs: [.subscribe]),
        Interaction(name: "GET /v1/topics/t/messages?overflow=block", needs: [.subscribe, .block]),
        Interaction(name: "HEAD /v1/topics/t/messages?overflow=block", needs: [.subscribe, .block]),
        Interaction(name: "GET /v1/topics/$SYS.events/messages", needs: [.control], topic: "$SYS.events"),
        Interaction(name: "POST /v1/topics/t/messages", needs: [.publish]),
    ]

    @Test(arguments: plain) func plainHTTPAsksForWhatItNeeds(_ interaction: Interaction) throws {
        for (missing, isAllowed) in PermissionTests.cases(interaction) {
            let table = AccessTable.users([
                "alice": PermissionTests.permissions(without: missing, on: interaction.topic)
            ])
            let broker = HTTP1Broker(access: table)
            let peer = HTTP1Peer(broker)
            let words = interaction.name.split(separator: " ").map(String.init)
            let length = words[0] == "POST" ? [("Content-Length", "1")] : []
            peer.send(words[0], words[1], [("Authorization", "Basic YWxpY2U6c2VjcmV0")] + length)
            broker.turn()
            broker.answerLogin(.user("alice", of: table))
            if words[0] == "POST" {
                peer.body([0x61])
                peer.endRequest()
            }
            let answer = try #require(peer.answer())
            #expect(answer.status == (isAllowed ? 200 : 403), "without \(missing as Any)")
        }
    }

    @Test func creditIsForTheSameUser() throws {
        let table = AccessTable.users(["alice": .all, "bob": .all], anonymous: .all)
        let broker = HTTP1Broker(access: table)
        let reader = HTTP1Peer(broker)
        reader.send("GET", "/v1/topics/t/messages?request=1", [("Authorization", "Basic YWxpY2U6c2VjcmV0")])
        broker.turn()
        broker.answerLogin(.user("alice", of: table))
        let head = try #require(reader.answer())
        let id = try #require(head.headers.first { $0.name == "forebay-subscription" }).value
        for (user, status) in [("bob", 403), (nil, 403), ("alice", 204)] {
            let peer = HTTP1Peer(broker)
            peer.send(
                "POST", "/v1/subscriptions/\(id)/request?n=5", user.map { [("Authorization", "Bearer \($0)")] } ?? [])
            broker.turn()
            if let user { broker.answerLogin(.user(user, of: table)) }
            #expect(peer.answer()?.status == status, "\(user as Any)")
        }
    }

    // What a user sees

    @Test(arguments: [
        (Permissions.all, #""$SYS.topics","$SYS.subscriptions","$SYS.connections""#), (.none, ""),
        (Permissions(publish: topics("a")), #""$SYS.topics""#),
        (Permissions(subscribe: topics("a")), #""$SYS.topics""#),
        (Permissions(control: topics("a")), #""$SYS.topics","$SYS.subscriptions""#),
        (Permissions(control: topics("$SYS.>")), #""$SYS.connections""#),
    ])
    func oneIsToldWhichListsAreOpen(_ permissions: Permissions, _ lists: String) {
        let table = AccessTable.users(["alice": permissions])
        let broker = TestBroker(access: table)
        let client = broker.logIn("alice", of: table)
        client.publish("$SYS.info", "")
        #expect(client.received().last?.hasSuffix(#","user":"alice","sees":[\#(lists)]}|"#) == true)
    }
}
