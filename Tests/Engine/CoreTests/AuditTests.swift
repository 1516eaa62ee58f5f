// Operators' actions are logged, with the user and the target; events report why a subscription or connection ended.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct AuditTests {
    private let table = AccessTable.users(["alice": .all, "bob": .all])

    /// Lines at a level that operators see, as "message key=value …".
    private func reported(_ broker: TestBroker) -> [String] {
        broker.log.filter { $0.level >= .info }.map { record in
            ([record.message] + record.fields.map { "\($0.key)=\($0.value)" }).joined(separator: " ")
        }
    }

    /// A subscription of bob's on the last shard, and its id.
    private func subscribe(_ broker: TestBroker, shard: Int, _ route: String = "t") throws -> (TestClient, String) {
        let client = broker.logIn("bob", of: table, shard: shard)
        client.subscribe(route)
        let part = broker.ask(.survey(Survey(.subscriptions, most: 9, order: .age)), shard: shard)
        guard case .survey(let survey) = part else { throw Missing() }
        return (client, String(try #require(survey.subscriptions.last?.id)))
    }

    private struct Missing: Error {}

    @Test(arguments: [1, 2]) func whoCutsOffWhomIsLogged(shards: Int) throws {
        let broker = TestBroker(shards: shards, access: table)
        let alice = broker.logIn("alice", of: table)
        let (_, id) = try subscribe(broker, shard: shards - 1)
        alice.publish("$SYS.subscription.close?id=\(id)", "")
        let connection = "\(shards - 1)-\(shards == 1 ? 1 : 0)-1"
        let peer = "127.0.0.1:1001"
        #expect(
            reported(broker) == [
                "subscription cut off by=alice by-peer=127.0.0.1:1000 subscription=\(id) topic=t "
                    + "connection=\(connection) peer=\(peer) user=bob"
            ])
        alice.publish("$SYS.connection.close?id=\(connection)", "", stream: 5)
        #expect(
            reported(broker).dropFirst() == [
                "connection cut off by=alice by-peer=127.0.0.1:1000 connection=\(connection) peer=\(peer) user=bob"
            ])
        // An action that fails is not logged.
        alice.publish("$SYS.subscription.close?id=\(id)", "", stream: 7)
        #expect(reported(broker).count == 2)
    }

    @Test(arguments: [1, 2]) func whoEndsATopicIsLogged(shards: Int) {
        let broker = TestBroker(shards: shards, access: table)
        let alice = broker.logIn("alice", of: table)
        let calls = ["complete?name=a", "fail?name=b&message=gone", "delete?name=c", "info?name=d"]
        for (index, call) in calls.enumerated() {
            alice.publish(["a", "b", "c", "d"][index], "x", stream: UInt32(4 * index + 1))
            alice.publish("$SYS.topic.\(call)", "", stream: UInt32(4 * index + 3))
        }
        let lines = reported(broker)
        #expect(lines.count == 3)
        for (line, words) in zip(lines, ["completed", "failed", "deleted"]) {
            #expect(line.hasPrefix("topic \(words) by=alice by-peer=127.0.0.1:1000 topic="), "\(line)")
        }
        #expect(lines[1].contains("topic=b ") && lines[1].hasSuffix(" reason=gone"))
        // The second time, there is nothing to end.
        alice.publish("$SYS.topic.complete?name=a", "", stream: 99)
        #expect(reported(broker).count == 3)
    }

    @Test func callsOverGRPCAndOfTheAdminListenerAreLoggedAsWell() throws {
        let broker = TestBroker()
        let client = GRPCClient(broker)
        client.call(.publishOne, field(1, "t") + [0x12, 3, 0x12, 1, 0x61])
        client.call(.deleteTopic, field(1, "t"))
        #expect(reported(broker).map { $0.contains("topic deleted by-peer=127.0.0.1:1000 topic=t") } == [true])
        client.call(.publishOne, field(1, "t") + [0x12, 3, 0x12, 1, 0x61])
        var call = try ControlRequest.about("t", .complete)
        call.caller = Caller(user: "carol", peer: "127.0.0.1:9")
        _ = broker.ask(.control(call))
        #expect(reported(broker).last?.hasPrefix("topic completed by=carol by-peer=127.0.0.1:9 topic=t") == true)
    }

    // Reasons

    /// The reasons given in `$SYS.events` by the events called `name` that `act` causes.
    private func reasons(_ name: String, _ act: (TestBroker, TestClient) throws -> Void) rethrows -> [String] {
        let broker = TestBroker(access: table)
        let watcher = broker.logIn("alice", of: table)
        watcher.subscribe("$SYS.events", stream: 1)
        let client = broker.logIn("bob", of: table)
        client.subscribe("t?buffer=1&overflow=fail", n: 1, stream: 11)
        try act(broker, client)
        broker.advance(seconds: 3)
        return watcher.received().filter { $0.contains("\"event\":\"\(name)\"") }.map { line in
            let parts = line.split(separator: "\"reason\":\"", maxSplits: 1)
            return parts.count == 2 ? String(parts[1].split(separator: "\"")[0]) : "none"
        }
    }

    @Test func theEndOfASubscriptionHasItsReason() throws {
        func ended(_ act: (TestBroker, TestClient) throws -> Void) rethrows -> [String] {
            try reasons("unsubscribed", act)
        }
        #expect(ended { $1.cancel(stream: 11) } == ["cancelled by the client"])
        #expect(ended { $1.disconnect() } == ["its connection ended: test"])
        #expect(
            ended { broker, client in
                client.publish("$SYS.topic.complete?name=t", "")
            } == ["the topic completed"])
        #expect(
            ended { broker, client in
                client.publish("$SYS.topic.fail?name=t&message=gone", "")
            } == ["topic failed: gone"])
        #expect(
            ended { broker, client in
                for number in 0..<4 { client.publish("t", "x", stream: UInt32(101 + 2 * number)) }
                client.requestN(9, stream: 11)
            }.map { $0.hasPrefix("overflow: the buffer of 1 message was full") } == [true])
        #expect(
            ended { broker, _ in
                broker.reload(AccessTable.users(["alice": .all, "bob": .none]))
            } == ["forbidden: User 'bob' may not subscribe to 't'; ask the broker's administrator for permission."])
        #expect(
            try ended { broker, client in
                let part = broker.ask(.survey(Survey(.subscriptions, most: 9, order: .age)))
                guard case .survey(let survey) = part else { throw Missing() }
                let id = try #require(survey.subscriptions.first { $0.topic == "t" }?.id)
                client.publish("$SYS.subscription.close?id=\(id)", "")
            } == ["closed-by-operator: An operator ended this subscription."])
        #expect(
            ended { broker, client in
                client.publish("$SYS.connection.close?id=0-1-1", "")
            } == ["its connection ended: closed-by-operator: An operator closed this connection."])
    }

    @Test func theEndOfAConnectionHasItsReason() {
        #expect(
            reasons("connection-closed") { _, client in
                client.publish("$SYS.connection.close?id=0-1-1", "")
            } == ["closed-by-operator: An operator closed this connection."])
        #expect(reasons("connection-closed") { $1.disconnect() } == ["test"])
    }

    @Test func aCallThatRunsOutOfTimeIsNotCancelledByItsClient() {
        let broker = TestBroker()
        let watcher = broker.connect()
        watcher.subscribe("$SYS.events", stream: 1)
        let client = GRPCClient(broker)
        client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x61, 0x10, 1], end: false, timeout: "1S")
        broker.advance(seconds: 2)
        #expect(watcher.received().contains { $0.contains("unsubscribed") && $0.contains("The call's grpc-timeout") })
    }
}
