// The error that ends a stream or a connection: it follows everything already sent, however long that waits for the
// socket.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct StreamErrorTests {
    enum Cause: CaseIterable { case noDemand, idInUse, userGone }

    /// With `$SYS.topics`, more rows wait than are requested here.
    @Test(arguments: ["t", "$SYS.topics"], Cause.allCases)
    func nothingComesBehindIt(_ route: String, _ cause: Cause) {
        let table = AccessTable.users(["alice": .all, "bob": .all])
        let broker = TestBroker(access: table)
        let client = broker.logIn("alice", of: table)
        let publisher = broker.logIn("bob", of: table)
        for topic in ["a", "b", "c"] { publisher.fireAndForget(topic, "x") }
        client.subscribe("t", n: 3, stream: 7)
        _ = client.received()
        client.window = 0
        client.subscribe(route, n: 3)
        for text in ["1", "2", "3", "4"] { publisher.fireAndForget("t", text) }
        switch cause {
        case .noDemand: client.requestN(0)
        case .idInUse: client.subscribe("t")
        case .userGone: broker.reload(.users(["bob": .all]))
        }
        client.read(.max)
        let lines = client.received().filter { $0.hasPrefix("1:") }
        #expect(lines.count == 4 && lines.last?.hasPrefix("1:! ") == true, "\(lines)")
    }

    @Test func theStreamsBesideItGoOn() {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t", stream: 1)
        client.subscribe("t", stream: 3)
        client.window = 0
        client.fireAndForget("t", "1")
        client.requestN(0, stream: 1)
        client.fireAndForget("t", "2")
        client.read(.max)
        let lines = client.received()
        #expect(lines.filter { $0.hasPrefix("1:") }.map { $0.prefix(3) } == ["1:1", "1:!"], "\(lines)")
        #expect(lines.filter { $0.hasPrefix("3:") } == ["3:1", "3:2"], "\(lines)")
    }

    /// For its topic such a channel was cancelled; for its client both are one stream, with one error.
    @Test func aChannelWhoseIDIsUsedAgainFailsOnce() {
        let broker = TestBroker()
        let client = broker.connect()
        let subscriber = broker.connect()
        subscriber.subscribe("t")
        client.channel("t?on-loss=fail", "1")
        client.subscribe("t", stream: 5)
        #expect(client.received().filter { $0.hasPrefix("5:!") }.count == 1)
        #expect(subscriber.received().last?.hasSuffix("the publisher cancelled") == true)
    }

    @Test func nothingComesBehindTheConnections() {
        let broker = TestBroker()
        let client = broker.connect()
        client.send {
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            FrameWriter.keepalive(respond: true, position: 0, data: nothing, into: &$0)
            FrameWriter.requestStream(
                stream: 0, initialN: 1, metadata: nothing, data: nothing, fragment: 0, into: &$0)
        }
        let lines = client.received()
        #expect(lines.count == 2 && lines.last?.hasPrefix("0:! 101 ") == true, "\(lines)")
    }
}
