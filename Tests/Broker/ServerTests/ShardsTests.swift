// Whole brokers over real sockets: cooperating shards, and the ways in which a broker ends.

import EventLoop
import Glibc
import Testing

@testable import Server

/// The frames that these tests need, encoded by hand: Core's tests cover the protocol, these cover the threads.
private enum Wire {
    static func frame(_ stream: UInt32, _ type: UInt8, flags: UInt8 = 0, _ body: [UInt8]) -> [UInt8] {
        let length = body.count + 6
        return [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF)] + bytes(stream)
            + [type, flags] + body
    }

    /// Routes are plain strings: the metadata's type is text.
    static let setup = frame(
        0, 0x04,
        [0, 1, 0, 0] + bytes(20_000) + bytes(90_000) + [10] + Array("text/plain".utf8) + [10]
            + Array("text/plain".utf8))

    static func requestStream(_ stream: UInt32, _ route: String) -> [UInt8] {
        frame(stream, 0x19, bytes(0x7FFF_FFFF) + metadata(route))
    }

    static func requestResponse(_ stream: UInt32, _ route: String, _ payload: String) -> [UInt8] {
        frame(stream, 0x11, metadata(route) + Array(payload.utf8))
    }

    private static func metadata(_ route: String) -> [UInt8] { [0, 0, UInt8(route.utf8.count)] + Array(route.utf8) }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 0xFF), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)]
    }
}

extension TestClient {
    /// The next PAYLOAD or ERROR: its stream and its text.
    fileprivate func receiveAnswer() throws -> (stream: UInt32, text: String) {
        while true {
            let head = try receive(9)
            try #require(head.count == 9, "the broker closed the connection")
            let body = try receive((Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])) - 6)
            let stream = head[3..<7].reduce(0) { $0 << 8 | UInt32($1) }
            switch head[7] >> 2 {
            case 0x0A: return (stream, String(decoding: body, as: UTF8.self))
            case 0x0B: return (stream, "error: " + String(decoding: body.dropFirst(4), as: UTF8.self))
            default: continue
            }
        }
    }
}

struct ShardsTests {
    @Test(arguments: [1, 2, 3])
    func everySubscriberOnEveryShardGetsEveryTopicInOrder(threads: Int) throws {
        let log = try silentLog()
        let server = try Server(
            Server.Configuration(listen: Endpoint(host: "127.0.0.1", port: 0), threads: threads), log: log)
        let port = server.addresses(.rsocket)[0].port
        // Connections are assigned in turn, so each shard has some; topics are placed by their names.
        let topics = (0..<6).map { "shards.\($0)" }
        let messages = 200
        let subscribers = try (0..<(2 * threads)).map { _ in try TestClient(port: port) }
        for subscriber in subscribers {
            try subscriber.send(Wire.setup)
            for (place, topic) in topics.enumerated() {
                // All retained messages are requested: the order of the subscription and the messages does not matter.
                try subscriber.send(Wire.requestStream(UInt32(2 * place + 1), topic + "?replay=all"))
            }
        }
        let publishers = try topics.map { _ in try TestClient(port: port) }
        for (publisher, topic) in zip(publishers, topics) {
            try publisher.send(
                Wire.setup
                    + (1...messages).flatMap { Wire.requestResponse(UInt32(2 * $0 - 1), topic, "\(topic) \($0)") })
        }
        for publisher in publishers {
            for number in 1...messages {
                let answer = try publisher.receiveAnswer()
                #expect(answer == (UInt32(2 * number - 1), String(number)))
            }
        }
        for subscriber in subscribers {
            var next = Array(repeating: 1, count: topics.count)
            for _ in 0..<(topics.count * messages) {
                let (stream, text) = try subscriber.receiveAnswer()
                let place = Int(stream / 2)
                #expect(text == "\(topics[place]) \(next[place])")
                next[place] += 1
            }
            #expect(next.allSatisfy { $0 == messages + 1 })
        }
        server.drain()
        #expect(server.wait())
        #expect(server.connectionCount == 0)
        log.close()
    }

    @Test func aDrainTellsConnectionsAndEndsThem() throws {
        let log = try silentLog()
        let server = try Server(
            Server.Configuration(listen: Endpoint(host: "127.0.0.1", port: 0), threads: 2), log: log)
        let clients = try (0..<4).map { _ in try TestClient(port: server.addresses(.rsocket)[0].port) }
        for client in clients {
            try client.send(Wire.setup + Wire.requestResponse(1, "drain", "x"))
            _ = try client.receiveAnswer()
        }
        server.drain()
        for client in clients {
            #expect(try client.receiveAnswer().text.hasPrefix("error: "))
            #expect(try client.receiveAll() == [])
            client.disconnect()
        }
        #expect(server.wait())
        log.close()
    }

    @Test func aDrainThatTakesTooLongIsCut() throws {
        let log = try silentLog()
        var configuration = Server.Configuration(listen: Endpoint(host: "127.0.0.1", port: 0), threads: 2)
        configuration.drainTime = 50_000_000
        configuration.limits.closeTime = 3_600_000_000_000
        let server = try Server(configuration, log: log)
        let client = try TestClient(port: server.addresses(.rsocket)[0].port)
        try client.send(Wire.setup + Wire.requestResponse(1, "drain", "x"))
        _ = try client.receiveAnswer()
        // The client does not close its end: its socket would linger for an hour.
        let begin = Clock.monotonic()
        server.drain()
        #expect(server.wait())
        #expect(Clock.monotonic() - begin >= 50_000_000)
        log.close()
    }
}
