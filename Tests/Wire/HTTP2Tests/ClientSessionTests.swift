// The client's session against the real server's, in memory; and against frames that our server would never send.

import Bytes
import HTTP2Frames
import Testing

@testable import HTTP2

/// Takes a client's output, and supplies the bodies that the test queued.
private struct ClientSink: HTTPSink {
    var output: [UInt8] = []
    var bodies: [UInt32: [UInt8]] = [:]

    mutating func write(_ bytes: UnsafeRawBufferPointer) { output += bytes }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        let waiting = bodies[stream]?.count ?? 0
        let count = min(waiting, atMost)
        return (count, count == waiting)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        output += head
        output += bodies[stream]!.prefix(count)
        bodies[stream]!.removeFirst(count)
    }
}

/// A client, and its events as lines.
private final class Client {
    var session: ClientSession
    var sink = ClientSink()
    private(set) var log: [String] = []
    private(set) var bodies: [UInt32: [UInt8]] = [:]
    /// Whether bytes of responses are acknowledged as they arrive.
    var consumes = true
    private var now: UInt64 = 1_000_000_000

    init(limits: HTTP2Limits = .client) { session = ClientSession(limits: limits) }

    func request(_ path: String = "/a", complete: Bool = true) -> UInt32? {
        let fields: HTTPFields = [
            ":method": "POST", ":scheme": "http", ":authority": "a", ":path": path, "te": "trailers",
        ]
        return session.request(fields, handle: 7, complete: complete)
    }

    var openStreams: Int { session.openStreams }
    var isOpened: Bool { session.isOpened }

    func send(_ stream: UInt32, _ text: String) {
        sink.bodies[stream, default: []] += Array(text.utf8)
        session.bodyAvailable(stream)
    }

    func output() -> [UInt8] {
        session.produce(into: &sink, atMost: .max)
        defer { sink.output = [] }
        return sink.output
    }

    func feed(_ bytes: [UInt8]) {
        now += 1_000
        bytes.withUnsafeBytes {
            session.feed($0, now: now)
            while let event = session.next() { note(event) }
        }
    }

    private func note(_ event: HTTPEvent) {
        switch event {
        case .response(let stream, let handle, let head, let complete):
            #expect(handle == 7)
            log.append("response \(stream) \(head.status) \(list(head.fields))" + (complete ? " END" : ""))
        case .data(let stream, _, let bytes):
            bodies[stream, default: []] += bytes
            log.append("data \(stream) \(bytes.count)")
            if consumes { session.consume(stream, bytes.count) }
        case .complete(let stream, _, let trailers):
            log.append("complete \(stream) \(trailers.map(list) ?? "without trailers")")
        case .reset(let stream, _, let code): log.append("reset \(stream) \(code.rawValue)")
        case .closed(let stream, _): log.append("closed \(stream)")
        case .writable(let stream, _): log.append("writable \(stream)")
        case .pong(let number): log.append("pong \(number)")
        case .worked: break
        case .closing(let why): log.append("closing \(why)")
        case .fatal(let error): log.append("fatal \(error.code.rawValue)")
        case .closedByPeer(let error): log.append("closed by peer \(error.code.rawValue) \(error.message)")
        case .request: log.append("a request")
        }
    }

    private func list(_ fields: HTTPFieldsView) -> String {
        (0..<fields.count).map { index in
            let (name, value) = fields[index]
            return String(decoding: name, as: UTF8.self) + "=" + String(decoding: value, as: UTF8.self)
        }.joined(separator: " ")
    }

    func events() -> [String] {
        defer { log = [] }
        return log
    }
}

/// A client and a server, which exchange bytes until neither has more to send.
private final class Pair {
    let client: Client
    let server: Peer

    init(client: HTTP2Limits = .client, server: HTTP2Limits = HTTP2Limits()) {
        self.client = Client(limits: client)
        self.server = Peer(limits: server, opened: false)
    }

    func talk() {
        while true {
            let up = client.output()
            if !up.isEmpty { server.feed(up) }
            server.session.produce(into: &server.sink, atMost: .max)
            server.pull()
            let down = server.sink.output
            server.sink.output = []
            if !down.isEmpty { client.feed(down) }
            if up.isEmpty, down.isEmpty { return }
        }
    }
}

@Suite struct ClientSessionTests {
    @Test func aCallInBothDirections() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request("/call", complete: false))
        pair.client.send(stream, "one")
        pair.talk()
        #expect(pair.client.isOpened)
        #expect(pair.server.events() == ["request 1 POST /call te=trailers", "data 1 3"])
        pair.server.respond(stream)
        pair.server.send(stream, Array("answer".utf8))
        pair.talk()
        #expect(pair.client.events() == ["response 1 200 content-type=text/plain", "data 1 6"])
        // Our half ends; the response continues.
        pair.client.send(stream, "two")
        pair.client.session.finish(stream)
        pair.talk()
        #expect(pair.server.events() == ["data 1 3", "complete 1"])
        pair.server.send(stream, Array("more".utf8))
        pair.server.session.finish(stream, trailers: ["grpc-status": "0"])
        pair.talk()
        #expect(pair.client.events() == ["data 1 4", "complete 1 grpc-status=0", "closed 1"])
        #expect(pair.server.events() == ["closed 1"])
        #expect(pair.client.openStreams == 0)
        #expect(pair.client.bodies[1] == Array("answermore".utf8))
    }

    @Test func anAnswerThatIsAHeadAlone() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request())
        pair.talk()
        pair.server.session.respond(stream, status: 404, fields: ["grpc-status": "5"], complete: true)
        pair.talk()
        #expect(pair.client.events() == ["response 1 404 grpc-status=5 END", "closed 1"])
    }

    @Test func informationalResponsesAreNotTold() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request())
        pair.talk()
        pair.server.session.inform(stream, status: 103)
        pair.server.respond(stream, complete: true)
        pair.talk()
        #expect(pair.client.events() == ["response 1 200 content-type=text/plain END", "closed 1"])
    }

    @Test func whatIsNotConsumedIsNotAcknowledged() throws {
        var limits = HTTP2Limits.client
        limits.streamWindow = 100_000
        let pair = Pair(client: limits)
        pair.client.consumes = false
        let stream = try #require(pair.client.request())
        pair.talk()
        pair.server.respond(stream)
        pair.server.send(stream, [UInt8](repeating: 1, count: 1 << 20))
        pair.talk()
        #expect(pair.client.bodies[stream]?.count == 100_000)
        pair.client.session.consume(stream, 60_000)
        pair.talk()
        #expect(pair.client.bodies[stream]?.count == 160_000)
        // A cancel returns the stream's window to the connection, so that other streams can use all of it.
        pair.client.session.reset(stream, .cancel)
        pair.talk()
        #expect(pair.server.events().last == "reset 1 8")
        let next = try #require(pair.client.request())
        pair.talk()
        pair.server.respond(next)
        pair.server.send(next, [UInt8](repeating: 2, count: 100_000))
        pair.talk()
        #expect(pair.client.bodies[next]?.count == 100_000)
    }

    @Test func bodiesWaitForTheServersWindow() throws {
        var limits = HTTP2Limits()
        limits.streamWindow = 70_000
        let pair = Pair(server: limits)
        pair.server.consumes = false
        pair.talk()
        let stream = try #require(pair.client.request(complete: false))
        pair.client.send(stream, String(repeating: "x", count: 200_000))
        pair.client.session.finish(stream)
        pair.talk()
        #expect(pair.server.bodies[stream]?.count == 70_000)
        for _ in 0..<2 {
            pair.server.session.consume(stream, 70_000)
            pair.talk()
        }
        #expect(pair.server.bodies[stream]?.count == 200_000)
        #expect(pair.server.events().last == "complete 1")
    }

    @Test func aResetIsToldWithItsCode() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request())
        pair.talk()
        pair.server.session.reset(stream, .enhanceYourCalm)
        pair.talk()
        #expect(pair.client.events() == ["reset 1 11"])
    }

    @Test func aServerThatAnswersEarlyEndsTheRequestToo() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request(complete: false))
        pair.talk()
        pair.server.respond(stream, complete: true)
        pair.talk()
        #expect(pair.client.events() == ["response 1 200 content-type=text/plain END", "closed 1"])
        #expect(pair.client.openStreams == 0)
    }

    @Test func pingsAndTheEndOfAConnection() throws {
        let pair = Pair()
        let stream = try #require(pair.client.request())
        pair.client.session.ping(42)
        pair.talk()
        #expect(pair.client.events() == ["pong 42"])
        pair.server.session.goAway(.noError, "going down")
        pair.talk()
        #expect(pair.client.events() == ["closing going down"])
        // No more requests, but the open one continues to its end.
        #expect(pair.client.request() == nil)
        pair.server.respond(stream, complete: true)
        pair.talk()
        #expect(pair.client.events() == ["response 1 200 content-type=text/plain END", "closed 1"])
    }

    @Test func anErrorOfTheConnectionIsTold() throws {
        let pair = Pair()
        _ = pair.client.request()
        pair.talk()
        pair.server.session.goAway(.enhanceYourCalm, "too much")
        pair.talk()
        #expect(pair.client.events() == ["closed by peer 11 too much"])
        #expect(pair.client.request() == nil)
    }

    @Test func requestsWaitForTheServersLimitAndNoneIsLost() throws {
        var limits = HTTP2Limits()
        limits.maxStreams = 2
        let pair = Pair(server: limits)
        pair.talk()
        let streams = (0..<3).compactMap { _ in pair.client.request() }
        #expect(streams == [1, 3, 5])
        pair.talk()
        let open = pair.server.session.openStreams
        #expect(open == 2)
        pair.server.respond(1, complete: true)
        pair.talk()
        #expect(pair.server.events().last == "request 5 POST /a te=trailers END")
        // A request that is still waiting when the server announces that it accepts no more requests is returned.
        let last = try #require(pair.client.request())
        _ = pair.client.events()
        pair.server.session.goAway(.noError, "")
        pair.talk()
        #expect(pair.client.events().contains("reset \(last) 7"))
    }

    @Test func ourOwnLimitOfStreams() throws {
        var limits = HTTP2Limits.client
        limits.maxStreams = 2
        let client = Client(limits: limits)
        #expect(client.request() == 1)
        #expect(client.request() == 3)
        #expect(client.request() == nil)
    }

    // Frames that our server would never send

    @Test(arguments: [
        Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), frame(Type.data, stream: 1, [1, 2, 3]),
        settings() + frame(Type.push, Flag.endHeaders, stream: 1, [0, 0, 0, 2]), settings() + data(9, "idle"),
        settings() + frame(Type.headers, Flag.endHeaders, stream: 1, [0x82]),
    ])
    func aConnectionOfNonsenseEnds(bytes: [UInt8]) {
        let client = Client()
        _ = client.request()
        _ = client.output()
        client.feed(bytes)
        // nghttp2 detects some of these violations by itself, and reports them only when it writes its GOAWAY.
        _ = client.output()
        client.feed([])
        let events = client.events()
        #expect(events.contains { $0.hasPrefix("fatal") || $0.hasPrefix("reset 1") }, "\(events)")
    }

    @Test func headersBeyondTheLimitResetTheStreamAlone() throws {
        var limits = HTTP2Limits.client
        limits.maxHeaderList = 2_000
        let pair = Pair(client: limits)
        let long = try #require(pair.client.request())
        let other = try #require(pair.client.request())
        pair.talk()
        pair.server.session.respond(
            long, status: 200, fields: ["x": String(repeating: "a", count: 3_000)], complete: false)
        pair.server.respond(other, complete: true)
        pair.talk()
        #expect(
            pair.client.events() == [
                "reset \(long) 11", "response \(other) 200 content-type=text/plain END", "closed \(other)",
            ])
        #expect(pair.server.events().contains("reset \(long) 11"))
    }

    @Test func noiseNeverTraps() {
        var numbers = Numbers(seed: 11)
        for _ in 0..<300 {
            let client = Client()
            for _ in 0..<3 { _ = client.request(complete: Bool.random(using: &numbers)) }
            _ = client.output()
            var bytes = settings()
            for _ in 0..<20 {
                let type = UInt8.random(in: 0...10, using: &numbers)
                let payload = (0..<Int.random(in: 0...40, using: &numbers)).map { _ in
                    UInt8.random(in: 0...255, using: &numbers)
                }
                bytes += frame(
                    type, UInt8.random(in: 0...255, using: &numbers), stream: UInt32.random(in: 0...8, using: &numbers),
                    payload)
            }
            client.feed(bytes)
            _ = client.output()
            #expect(client.openStreams <= 3)
        }
    }
}
