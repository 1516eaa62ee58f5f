// How gRPC calls and connections end: by statuses, by GOAWAY, by invalid input, by silence.

import Bytes
import CNGHTTP2
import ForebayWire
import Testing

@testable import Client
@testable import HTTP2

private let second: UInt64 = 1_000_000_000

@Suite struct GRPCEndTests {
    private func subscribe(_ broker: GRPCBroker, n: UInt32 = 10, meta: Bool = false) throws -> StreamID {
        var options = SubscribeOptions()
        options.meta = meta
        return try broker.connection.subscribe("t", options, n: n)
    }

    private func isError(_ seen: [Seen], _ code: ClientError.Code, _ part: String) -> Bool {
        guard seen.count == 1, case .died(let error) = seen[0] else { return false }
        return error.code == code && error.message.contains(part)
    }

    @Test(arguments: [
        ("3", "bad name", ClientError.Code.invalid), ("5", "no topic", .rejected), ("7", "not allowed", .rejected),
        ("16", "who are you", .rejected), ("8", "overflow: full", .applicationError), ("8", "too many", .rejected),
        ("9", "ended", .rejected), ("10", "topic failed: x", .applicationError), ("14", "going down", .unavailable),
        ("1", "given up", .canceled), ("13", "a bug", .otherStatus("INTERNAL")), ("99", "?", .otherStatus("UNKNOWN")),
    ])
    func statuses(status: String, message: String, code: ClientError.Code) throws {
        // The status comes in a response that is only a head, and after a message.
        for isOpened in [false, true] {
            let broker = GRPCBroker()
            let id = try subscribe(broker)
            _ = broker.talk()
            if isOpened { broker.send(id) { appendResponse([(1, "a")], to: &$0) } }
            broker.end(id, ["grpc-status": status, "grpc-message": message])
            let error = ClientError(code, message)
            #expect(broker.talk() == (isOpened ? [.message(1, metadata: nil, "a")] : []) + [.failed(1, error)])
            #expect(!error.endsConnection && error.isReportedByBroker)
        }
    }

    @Test func callsThatEndWithoutAStatus() throws {
        let broker = GRPCBroker()
        let cut = try subscribe(broker)
        let bare = try subscribe(broker)
        let reset = try subscribe(broker)
        _ = broker.talk()
        broker.send(cut) { $0.append([0, 0, 0, 0, 9, 1]) }
        broker.end(cut)
        broker.send(bare) { appendResponse([], to: &$0) }
        broker.end(bare, [:])
        broker.reset(reset, .internalError)
        let codes = broker.talk().map { seen -> String in
            guard case .failed(let id, let error) = seen else { return "\(seen)" }
            return "\(id) \(error.code)"
        }
        #expect(codes.sorted() == ["1 badAnswer", "3 otherStatus(\"UNKNOWN\")", "5 otherStatus(\"INTERNAL\")"])
    }

    @Test func closingLetsCallsEnd() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker)
        _ = broker.talk()
        broker.goAway(.noError, "going down")
        #expect(broker.talk() == [.closing("going down")])
        let why = ClientError(.connectionError, "going down")
        #expect(throws: why) { try subscribe(broker) }
        broker.send(id) { appendResponse([(1, "a")], to: &$0) }
        broker.end(id)
        #expect(broker.talk() == [.message(1, metadata: nil, "a"), .completed(1, dropped: 0)])
        #expect(broker.connection.receiveEnd() == why)
        #expect(broker.pull() == [.died(why)])
    }

    /// A publish overtaken by the shutdown was refused permanently.
    @Test func whatAShutdownOvertakesWaitsForTheNextBroker() throws {
        let broker = GRPCBroker()
        _ = try subscribe(broker)
        _ = broker.talk()
        broker.goAway(.noError, "going down")
        let notice = broker.answer()
        _ = try subscribe(broker)
        broker.arrive(notice)
        #expect(broker.pull() == [.closing("going down"), .failed(3, ClientError(.unavailable, "going down"))])
    }

    /// Regression: every call failed from then on, and nothing replaced the connection.
    @Test func whenTheIdsAreUsedUpTheConnectionCloses() throws {
        let broker = GRPCBroker()
        let first = try subscribe(broker)
        _ = broker.talk()
        #expect(nghttp2_session_set_next_stream_id(broker.connection.session.connection.session, Int32.max) == 0)
        #expect(try subscribe(broker).value == UInt32(Int32.max))
        let why = ClientError(.connectionError, "The connection accepts no more streams; connect again.")
        #expect(throws: why) { try subscribe(broker) }
        #expect(broker.connection.deadline == 0)
        #expect(broker.talk() == [.closing(why.message)])
        // Open calls continue.
        broker.send(first) { appendResponse([(1, "a")], to: &$0) }
        #expect(broker.talk() == [.message(1, metadata: nil, "a")])
    }

    @Test func anErrorOfTheConnection() throws {
        let broker = GRPCBroker()
        _ = try subscribe(broker)
        _ = broker.talk()
        broker.goAway(.enhanceYourCalm, "too much")
        #expect(broker.talk() == [.died(ClientError(.connectionError, "too much"))])
        #expect(broker.connection.receiveEnd().code == .lost)
    }

    @Test func whoDoesNotSpeakGRPC() throws {
        let web = GRPCBroker()
        for byte in "HTTP/1.1 400".utf8.prefix(4) {
            web.arrive([byte])
            #expect(web.pull() == [])
        }
        web.arrive(Array("/".utf8))
        #expect(isError(web.pull(), .protocolViolation, "HTTP/1.1, not HTTP/2"))
        // A server that answers with RSocket's ERROR[CONNECTION_ERROR].
        let rsocket = GRPCBroker()
        _ = try subscribe(rsocket)
        _ = rsocket.takeOutput()
        rsocket.arrive(hex("00000a 00000000 2c00 00000101") + Array(repeating: 0x61, count: 20))
        // nghttp2 reports this error when its GOAWAY is written.
        #expect(rsocket.pull() == [] && !rsocket.takeOutput().isEmpty)
        #expect(rsocket.connection.deadline == 0)
        #expect(isError(rsocket.pull(), .protocolViolation, "does not speak HTTP/2"))
        // A web server that speaks HTTP/2.
        let pages = GRPCBroker()
        let id = try subscribe(pages)
        _ = pages.talk()
        pages.respond(id, status: 404, ["content-type": "text/html"])
        #expect(isError(pages.talk(), .protocolViolation, "status 404"))
    }

    @Test func nonsenseInACallEndsTheConnection() throws {
        for nonsense in [[0, 0, 0, 0, 1, 0x0f], [1, 0, 0, 0, 0], [9, 0, 0, 0, 0]] as [[UInt8]] {
            let broker = GRPCBroker()
            let id = try subscribe(broker)
            _ = broker.talk()
            broker.send(id) { $0.append(nonsense) }
            let seen = broker.talk()
            #expect(isError(seen, .protocolViolation, "violated the protocol"), "\(seen)")
            // The broker is notified.
            broker.carry()
            #expect(broker.goAway?.code == .protocolError)
        }
    }

    @Test func messagesBeyondTheLimitFailTheCallAlone() throws {
        var limits = ClientLimits()
        limits.message = 1_000
        limits.reassembly = 4 << 20
        let broker = GRPCBroker(limits: limits)
        let id = try subscribe(broker)
        let other = try subscribe(broker)
        _ = broker.talk()
        broker.send(id) { appendResponse([(1, String(repeating: "x", count: 1_001))], to: &$0) }
        let error = ClientError(.messageTooLarge, "A message is larger than this client's limit of 1000 bytes.")
        #expect(broker.talk() == [.failed(1, error)])
        // A message that is too large and does not end is not kept forever.
        broker.send(other) { $0.append([0, 0xff, 0, 0, 0] + [UInt8](repeating: 1, count: 1 << 16)) }
        #expect(broker.talk() == [.failed(3, error)])
    }

    /// What was in flight when the call was cancelled does no harm, even if its end arrives in the same read.
    @Test(arguments: [true, false])
    func theEndOfACallThatWasGivenUpIsNothing(isAtOnce: Bool) throws {
        var limits = ClientLimits()
        limits.message = 1_000
        let broker = GRPCBroker(limits: limits)
        let (id, other) = (try subscribe(broker), try subscribe(broker))
        _ = broker.talk()
        broker.send(id) { appendResponse([(1, String(repeating: "x", count: 1_001))], to: &$0) }
        let error = ClientError(.messageTooLarge, "A message is larger than this client's limit of 1000 bytes.")
        if !isAtOnce { #expect(broker.talk() == [.failed(1, error)]) }
        broker.end(id)
        broker.send(other) { appendResponse([(1, "a")], to: &$0) }
        broker.end(other)
        let rest: [Seen] = [.message(3, metadata: nil, "a"), .completed(3, dropped: 0)]
        #expect(broker.talk() == (isAtOnce ? [.failed(1, error)] : []) + rest)
    }

    // Time

    @Test func pingsAndSilence() throws {
        let broker = GRPCBroker()
        let connection = broker.connection
        _ = broker.talk()
        #expect(connection.deadline <= 10 * second + 1_000)
        try connection.fire(now: 10 * second + 1_000_000)
        let ping = broker.takeOutput()
        #expect(ping.count == 17 && ping[3] == 6)
        // A client that has just received something need not send a PING.
        connection.arrived(0, now: 19 * second)
        try connection.fire(now: 21 * second)
        #expect(broker.takeOutput() == [])
        #expect(
            throws: ClientError(.silent, "Nothing was received from the broker for 60 s; the connection was closed.")
        ) {
            try connection.fire(now: 79 * second)
        }
    }

    @Test func whoDoesNotReadHearsNoSilence() throws {
        let connection = GRPCConnection(authority: "a", now: 0)
        connection.setReading(false, now: second)
        try connection.fire(now: 100 * second)
        connection.setReading(true, now: 100 * second)
        try connection.fire(now: 159 * second)
        #expect(throws: ClientError.self) { try connection.fire(now: 160 * second) }
    }

    @Test func noMoreCallsThanTheLimit() throws {
        var limits = ClientLimits()
        limits.streams = 2
        let broker = GRPCBroker(limits: limits)
        let id = try subscribe(broker)
        _ = try subscribe(broker)
        #expect(throws: ClientError.self) { try subscribe(broker) }
        broker.connection.cancel(id)
        _ = try subscribe(broker)
    }

    /// Any input, in any pieces, gives an error or events, never a trap; and no more is kept than was sent.
    @Test func noiseNeverTraps() throws {
        var generator = Numbers(seed: 3)
        for _ in 0..<300 {
            let broker = GRPCBroker()
            let id = try subscribe(broker, meta: Bool.random(using: &generator))
            _ = broker.talk()
            broker.send(id) { out in
                appendResponse([], to: &out)
                appendResponse([(1, "one"), (2, "two")], dropped: 1, metadata: [0xfa, 0, 0, 1, 0xa1], to: &out)
            }
            broker.end(id)
            var answer = broker.answer()
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let place = Int.random(in: 0..<answer.count, using: &generator)
                answer[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            }
            broker.arrive(answer)
            let seen = broker.pull()
            #expect(seen.count <= 4, "\(seen)")
            _ = broker.takeOutput()
        }
    }
}
