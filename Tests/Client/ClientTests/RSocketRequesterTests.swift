// The connection's state machine against scripted bytes.

import Bytes
import RSocket
import Testing

@testable import Client

private let second: UInt64 = 1_000_000_000

/// Why a new stream is refused.
private func refusal(_ connection: inout RSocketRequester) -> ClientError? {
    do {
        _ = try connection.requestStream(Route("a"), n: 1)
        return nil
    } catch {
        return error
    }
}

private func silence(_ connection: inout RSocketRequester, _ now: UInt64) -> ClientError? {
    do {
        try connection.fire(now: now)
        return nil
    } catch {
        return error
    }
}

@Suite struct RSocketRequesterTests {
    @Test func setupIsGolden() {
        var connection = RSocketRequester(now: 0)
        // SETUP 1.0, keepalive 10 s, lifetime 60 s, composite metadata, octet-stream.
        let expected =
            hex("00005c 00000000 0400 0001 0000 00002710 0000ea60 27") + Array(MimeType.compositeMetadata.utf8)
            + hex("18")
            + Array("application/octet-stream".utf8)
        same(connection.takeOutput(), hex("000053") + expected.dropFirst(3))
    }

    @Test func streamRequestIsGolden() throws {
        var connection = RSocketRequester(now: 0)
        _ = connection.takeOutput()
        let id = try connection.requestStream(Route("a.b", options: [("replay", "5")]), n: 7)
        #expect(id.value == 1)
        let route = Array("a.b?replay=5".utf8)
        let expected = hex("00001e 00000001 1900 00000007 000011 fe 00000d 0c") + route
        same(connection.takeOutput(), expected)
        same(try connection.request(Route("x"), data: none).value, 3)
    }

    /// One of each frame that a broker may send, and how a client must react.
    private static let script: [UInt8] =
        payload(1, "one") + payload(1, "two", metadata: [1, 2, 3]) + payload(1, "", metadata: [])
        + payload(99, "late, for a stream that is gone")
        + payload(1, String(repeating: "long ", count: 60), metadata: Array(repeating: 9, count: 100), fragment: 64)
        + bytes { FrameWriter.keepalive(respond: true, position: 0, data: none, into: &$0) }
        + requestN(3, 5) + requestN(3, 0) + requestN(1, 5) + payload(3, "17", next: true) + cancel(3)
        + payload(1, "", next: false, complete: true, metadata: [7]) + payload(3, "18", complete: true)
        + error(5, 0x204, "unknown option")
        + bytes { FrameWriter.keepalive(respond: false, position: 0, data: none, into: &$0) }
        + error(0, 0x102, "draining")

    private static let expected: [Seen] = [
        .message(1, metadata: nil, "one"), .message(1, metadata: [1, 2, 3], "two"), .message(1, metadata: [], ""),
        .message(1, metadata: Array(repeating: 9, count: 100), String(repeating: "long ", count: 60)),
        .granted(3, 5), .message(3, metadata: nil, "17"), .declined(3),
        .completed(1, dropped: 0), .message(3, metadata: nil, "18"), .completed(3, dropped: 0),
        .failed(5, ClientError(.invalid, "unknown option")), .pong([]), .closing("draining"),
    ]

    @Test(arguments: [1, 2, 3, 5, 7, 64, 1000, Int.max])
    func scriptInPieces(step: Int) throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 10)
        _ = try connection.requestChannel(Route("b"), n: 2, data: none, complete: false)
        _ = try connection.request(Route("c"), data: none)
        _ = connection.takeOutput()
        same(connection.feed(Self.script, step: step), Self.expected)
        // Only the KEEPALIVE was answered.
        same(connection.takeOutput(), hex("00000e 00000000 0c00 0000000000000000"))
        same(connection.input.isEmpty, true)
    }

    @Test func splitAtEveryByte() throws {
        for place in 0...Self.script.count {
            var connection = RSocketRequester(now: 0)
            _ = try connection.requestStream(Route("a"), n: 10)
            _ = try connection.requestChannel(Route("b"), n: 2, data: none, complete: false)
            _ = try connection.request(Route("c"), data: none)
            let first = connection.feed(Array(Self.script[..<place]))
            same(first + connection.feed(Array(Self.script[place...])), Self.expected, "split at \(place)")
        }
    }

    @Test func moreThanRequestedFailsTheStreamAlone() throws {
        var connection = RSocketRequester(now: 0)
        let greedy = try connection.requestStream(Route("a"), n: 1)
        let other = try connection.requestStream(Route("b"), n: CreditWindow.unbounded)
        _ = connection.takeOutput()
        let seen = connection.feed(payload(1, "x") + payload(1, "y") + payload(1, "z") + payload(3, "fine"))
        #expect(
            seen == [
                .message(1, metadata: nil, "x"),
                .failed(1, ClientError(.overdelivered, "The broker sent more messages than were requested.")),
                .message(3, metadata: nil, "fine"),
            ])
        same(connection.takeOutput(), cancel(1))
        same(connection.outstanding(on: greedy), 0)
        same(connection.outstanding(on: other), CreditWindow.unbounded)
    }

    @Test func demandAddsUpAndSaturates() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestStream(Route("a"), n: 3)
        connection.requestN(id, 4)
        same(connection.outstanding(on: id), 7)
        _ = connection.feed(payload(1, "x"))
        same(connection.outstanding(on: id), 6)
        connection.requestN(id, CreditWindow.unbounded)
        connection.requestN(id, CreditWindow.unbounded)
        same(connection.outstanding(on: id), CreditWindow.unbounded)
        _ = connection.feed(payload(1, "x"))
        same(connection.outstanding(on: id), CreditWindow.unbounded)
    }

    @Test func nothingAfterCancel() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestStream(Route("a"), n: 3)
        same(connection.feed(payload(1, "x")), [.message(1, metadata: nil, "x")])
        _ = connection.takeOutput()
        connection.cancel(id)
        connection.cancel(id)
        connection.requestN(id, 1)
        same(connection.takeOutput(), cancel(1))
        same(
            connection.feed(payload(1, "y") + error(1, 0x201, "late") + payload(1, "", next: false, complete: true)), []
        )
    }

    @Test func cancelBetweenAMessageAndTheEndInItsFrame() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestStream(Route("a"), n: 3)
        connection.input.append(payload(1, "x", complete: true))
        guard case .message? = try connection.next() else {
            Issue.record("no message")
            return
        }
        connection.cancel(id)
        same(try connection.next().map { Seen($0) }, nil)
    }

    @Test func channelSendsOnlyUnderCredit() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestChannel(Route("a"), n: 1, data: none, complete: false)
        _ = connection.takeOutput()
        same(connection.send(id, data: none), false)
        same(connection.takeOutput(), [])
        same(connection.feed(requestN(1, 2)), [.granted(1, 2)])
        let sent = (0..<3).map { _ in connection.send(id, data: none) }
        #expect(sent == [true, true, false])
        connection.complete(id)
        connection.complete(id)
        // Two items, then one completion; nothing is sent after it.
        let item = hex("000006 00000001 2820")
        same(connection.takeOutput(), item + item + hex("000006 00000001 2840"))
        same(connection.feed(requestN(1, 9)), [])
        same(connection.send(id, data: none), false)
        same(connection.feed(payload(1, "", next: false, complete: true)), [.completed(1, dropped: 0)])
    }

    @Test func creditOfAChannelSaturates() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestChannel(Route("a"), n: 1, data: none, complete: false)
        _ = connection.feed(requestN(1, 0x7fff_ffff) + requestN(1, 0x7fff_ffff))
        same(connection.credit(of: id), CreditWindow.unbounded)
        let sent = connection.send(id, data: none)
        #expect(sent)
        same(connection.credit(of: id), CreditWindow.unbounded)
    }

    @Test func largeItemsGoOutInFragments() throws {
        var limits = ClientLimits()
        limits.fragment = 1024
        var connection = RSocketRequester(limits: limits, now: 0)
        let data = [UInt8](repeating: 7, count: 5000)
        _ = try data.withUnsafeBytes { try connection.request(Route("a"), data: $0) }
        var reader = ByteBuffer()
        reader.append(Array(connection.takeOutput()))
        var size = 0
        var types: [UInt8] = []
        while !reader.isEmpty {
            let length = reader.readable.u24(at: 0)
            let frame = try Frame.decode(reader.readable.slice(3..<3 + length).bytes)
            #expect(length <= 1024)
            types.append(frame.header.typeCode)
            switch frame.body {
            case .requestResponse(let content), .payload(_, _, let content): size += content.data.count
            default: break
            }
            reader.consume(3 + length)
        }
        #expect(size == 5000)
        #expect(types == [1, 4, 10, 10, 10, 10])
    }

    @Test func reassemblyIsCapped() throws {
        var limits = ClientLimits()
        limits.message = 1000
        limits.reassembly = 1500
        var connection = RSocketRequester(limits: limits, now: 0)
        for route in ["a", "b", "c"] { _ = try connection.requestStream(Route(route), n: 5) }
        _ = connection.takeOutput()
        func fragment(_ id: UInt32, _ count: Int, last: Bool = false) -> [UInt8] {
            var whole = payload(id, String(repeating: "x", count: count))
            if !last { whole[8] |= 0x80 }
            return whole
        }
        let tooLarge = ClientError(.messageTooLarge, "A message is larger than this client's limit of 1000 bytes.")
        same(connection.feed(fragment(1, 600) + fragment(1, 600)), [.failed(1, tooLarge)])
        same(connection.takeOutput(), cancel(1))
        // The failed stream's share is free again; together, the fragments on the two other streams are too large.
        same(connection.feed(fragment(3, 900) + fragment(5, 500)), [])
        same(connection.feed(fragment(5, 200)), [.failed(5, tooLarge)])
        let whole = String(repeating: "x", count: 1000)
        same(connection.feed(fragment(3, 100, last: true)), [.message(3, metadata: nil, whole)])
        same(connection.feed(payload(3, whole + "x")), [.failed(3, tooLarge)])
    }

    @Test func anEmptyItemWithoutFlagsCounts() throws {
        var connection = RSocketRequester(now: 0)
        let id = try connection.requestStream(Route("a"), n: 2)
        same(connection.feed(payload(1, "", next: false)), [.message(1, metadata: nil, "")])
        same(connection.outstanding(on: id), 1)
    }

    @Test func requestsOfTheBrokerAreRefused() {
        var connection = RSocketRequester(now: 0)
        _ = connection.takeOutput()
        let request = bytes {
            FrameWriter.requestResponse(stream: 2, metadata: nil, data: none, fragment: 0, into: &$0)
            FrameWriter.requestFNF(stream: 4, metadata: nil, data: none, fragment: 0, into: &$0)
            FrameWriter.metadataPush(none, into: &$0)
        }
        same(connection.feed(request), [])
        same(connection.takeOutput(), error(2, 0x202, "This client accepts no requests."))
    }

    /// The text of a REJECTED shows whether reconnecting makes sense.
    @Test(arguments: [
        ("draining: The broker is shutting down; connect again later.", ClientError.Code.unavailable),
        ("The topic 'a' has ended.", .rejected), ("", .rejected),
    ])
    func aRefusalByABrokerThatShutsDown(_ text: String, _ code: ClientError.Code) throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 2)
        let expected = ClientError(code, text)
        same(connection.feed(error(1, 0x202, text)), [.failed(1, expected)])
        #expect(!expected.endsConnection && expected.isReportedByBroker)
    }

    @Test func errorsOfTheConnection() throws {
        for (code, kind) in [
            (UInt32(1), ClientError.Code.setupRejected), (3, .setupRejected),
            (0x101, .connectionError),
        ] {
            var connection = RSocketRequester(now: 0)
            _ = try connection.requestStream(Route("a"), n: 2)
            let expected = ClientError(kind, "because")
            same(connection.feed(error(0, code, "because")), [.died(expected)])
            // Once dead, a connection stays dead: the same result again, and no new streams.
            same(connection.feed(payload(1, "x")), [.died(expected)])
            same(refusal(&connection), expected)
            #expect(expected.endsConnection && expected.isReportedByBroker)
        }
    }

    @Test func closingLetsOpenStreamsEnd() throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 2)
        let seen = connection.feed(error(0, 0x102, "bye") + payload(1, "x", complete: true))
        #expect(seen == [.closing("bye"), .message(1, metadata: nil, "x"), .completed(1, dropped: 0)])
        same(refusal(&connection), ClientError(.connectionError, "bye"))
        same(connection.receiveEnd(), ClientError(.connectionError, "bye"))
    }

    @Test(arguments: [
        "000000", "000005 0000000128", "000009 00000001 2920 000009", "000008 00000001 2000 0001",
        "000006 00000001 3c00", "000006 00000001 0400", "000008 00000000 2c00 0000", "000007 00000000 0c00 00",
    ])
    func brokenFramesEndTheConnection(frame: String) throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 2)
        _ = connection.takeOutput()
        let seen = connection.feed(hex(frame) + [0, 0, 0, 0])
        guard case .died(let error)? = seen.first, seen.count == 1 else {
            Issue.record("the connection lives on: \(seen)")
            return
        }
        #expect(error.code == .protocolViolation)
        // The broker is notified: ERROR[CONNECTION_ERROR] on stream 0.
        same(Array(connection.takeOutput().dropFirst(3).prefix(10)), hex("00000000 2c00 00000101"))
    }

    @Test func unknownFramesThatMayBeIgnoredAre() {
        var connection = RSocketRequester(now: 0)
        same(connection.feed(hex("00000a 00000000 fe00 00000001") + hex("000006 00000001 7e00")), [])
    }

    @Test func aFrameBeyondTheLimitIsRefusedBeforeItIsThere() throws {
        var limits = ClientLimits()
        limits.message = 1 << 16
        var connection = RSocketRequester(limits: limits, now: 0)
        let seen = connection.feed(hex("010041 00000000 2800"))
        guard case .died(let error)? = seen.first else {
            Issue.record("\(seen)")
            return
        }
        #expect(error.code == .protocolViolation && error.message.contains("does not speak RSocket"))
    }

    /// Regression: the first bytes of such a message arrived separately, which ended the connection.
    @Test func aMessageBeyondASmallLimitFailsItsStreamAlone() throws {
        var limits = ClientLimits()
        limits.message = 1 << 10
        var connection = RSocketRequester(limits: limits, now: 0)
        for route in ["a", "b"] { _ = try connection.requestStream(Route(route), n: 5) }
        _ = connection.takeOutput()
        let frame = payload(1, String(repeating: "x", count: 64 << 10)) + payload(3, "y")
        same(connection.feed(Array(frame.prefix(9))), [])
        let tooLarge = ClientError(.messageTooLarge, "A message is larger than this client's limit of 1024 bytes.")
        let seen = connection.feed(Array(frame.dropFirst(9)))
        same(seen, [.failed(1, tooLarge), .message(3, metadata: nil, "y")])
    }

    @Test(arguments: [1, 3, 4, 100])
    func aWebServerIsNoBroker(step: Int) throws {
        var connection = RSocketRequester(now: 0)
        let seen = connection.feed(Array("HTTP/1.1 400 Bad Request\r\n".utf8), step: step)
        same(
            seen,
            [
                .died(
                    ClientError(.protocolViolation, "The server speaks HTTP/1.1, not RSocket; check the port."))
            ])
    }

    @Test func aPortThatSaysWhatItIsIsBelieved() throws {
        var other = RSocketRequester(now: 0)
        same(
            other.feed(error(0, 2, "This port speaks HTTP.")),
            [.died(ClientError(.protocolViolation, "The server answered: This port speaks HTTP."))])
        var connection = RSocketRequester(now: 0)
        let answer = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\r\nThis port speaks TLS.\n"
        same(
            connection.feed(Array(answer.utf8), step: answer.utf8.count),
            [.died(ClientError(.protocolViolation, "The server answered: This port speaks TLS."))])
    }

    @Test func keepaliveAndLifetime() throws {
        var limits = ClientLimits()
        limits.keepaliveInterval = 10 * second
        limits.lifetime = 30 * second
        var connection = RSocketRequester(limits: limits, now: 0)
        _ = connection.takeOutput()
        same(connection.deadline, 10 * second)
        try connection.fire(now: 9 * second)
        same(connection.takeOutput(), [])
        try connection.fire(now: 10 * second)
        same(connection.takeOutput(), hex("00000e 00000000 0c80 0000000000000000"))
        same(connection.deadline, 20 * second)
        connection.heard(now: 15 * second)
        try connection.fire(now: 44 * second)
        same(silence(&connection, 45 * second)?.code, .silent)
    }

    @Test func whoDoesNotReadHearsNoSilence() throws {
        var limits = ClientLimits()
        limits.lifetime = 30 * second
        var connection = RSocketRequester(limits: limits, now: 0)
        connection.setReading(false, now: second)
        try connection.fire(now: 100 * second)
        connection.setReading(true, now: 100 * second)
        try connection.fire(now: 129 * second)
        same(silence(&connection, 130 * second)?.code, .silent)
    }

    @Test func aPeerThatDoesNotReadGetsNoEndlessAnswers() {
        var connection = RSocketRequester(now: 0)
        _ = connection.takeOutput()
        let ping = bytes { out in
            let data = [UInt8](repeating: 0, count: 1000)
            data.withUnsafeBytes { FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &out) }
        }
        for _ in 0..<1000 { _ = connection.feed(ping) }
        same(connection.output.count < ClientLimits().controlOutput + 2000, true)
    }
}
