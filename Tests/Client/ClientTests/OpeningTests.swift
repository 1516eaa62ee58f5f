// A subscription's opening: what the client requests for the opening, and how the client reports the position.

import Bytes
import ForebayWire
import HTTP2
import RSocket
import Testing

@testable import Client

@Suite struct OpeningTests {
    private var opening: [UInt8] {
        var metadata = ByteBuffer()
        OpeningPosition(epoch: 9, next: 4).appendMetadata(into: &metadata)
        return Array(metadata.readable)
    }

    @Test func itsCreditIsRequestedInAddition() throws {
        var connection = RSocketRequester(now: 0)
        _ = connection.takeOutput()
        var options = SubscribeOptions()
        options.opening = true
        let route = options.route(to: "a")
        let id = try connection.requestStream(route, n: 2, opens: true)
        // REQUEST_STREAM with M, and a demand of 3.
        let start = hex("00001e 00000001 1900 00000003")
        #expect(connection.takeOutput().starts(with: start))
        #expect(route.tags == ["a?opening=on"])
        let frames =
            payload(1, "", metadata: opening) + payload(1, "x", metadata: opening) + payload(1, "y")
        #expect(
            connection.feed(frames) == [
                .opened(1, epoch: 9, next: 4), .message(1, metadata: opening, "x"), .message(1, metadata: nil, "y"),
            ])
        #expect(connection.outstanding(on: id) == 0)
    }

    @Test func anOpeningMayEndTheStream() throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 2, opens: true)
        #expect(
            connection.feed(payload(1, "", complete: true, metadata: opening)) == [
                .opened(1, epoch: 9, next: 4), .completed(1, dropped: 0),
            ])
    }

    @Test func unboundedDemandIsNotIncreased() throws {
        var connection = RSocketRequester(now: 0)
        _ = connection.takeOutput()
        _ = try connection.requestStream(Route("a"), n: CreditWindow.unbounded, opens: true)
        #expect(connection.takeOutput()[9..<13].elementsEqual(hex("7fffffff")))
    }

    /// A broker that sends a message instead of an opening was not asked for an opening, or does not know the option.
    @Test func aMessageIsNoOpening() throws {
        var connection = RSocketRequester(now: 0)
        _ = try connection.requestStream(Route("a"), n: 2, opens: true)
        #expect(
            connection.feed(payload(1, "x") + payload(1, "", metadata: opening)) == [
                .message(1, metadata: nil, "x"), .message(1, metadata: opening, ""),
            ])
    }

    @Test(arguments: [
        (SubscribeOptions.Start.next, UInt64(4)), (.last(3), 4), (.all, 4), (.from(2, epoch: nil), 2),
        (.from(2, epoch: 9), 2), (.from(8, epoch: nil), 4), (.since(.at(5)), 4), (.since(.ago(5)), 4),
    ])
    func aConnectionLostBeforeTheFirstMessageLosesNothing(_ start: SubscribeOptions.Start, _ next: UInt64) {
        var position = TopicPosition(start)
        position.opened(OpeningPosition(epoch: 9, next: 4))
        position.lost()
        #expect(position.start == .from(next, epoch: 9))
        #expect(position.receive(epoch: 9, sequence: 4, dropped: 0) == (next == 4 ? .next : .behind(2)))
    }

    @Test func anotherEpochIsReportedByTheFirstMessage() {
        var position = TopicPosition(.from(2, epoch: 8))
        position.opened(OpeningPosition(epoch: 9, next: 1))
        #expect(position.start == .from(2, epoch: 8))
        #expect(position.receive(epoch: 9, sequence: 1, dropped: 0) == .restarted(previous: 8))
    }

    @Test func withoutAnOpeningTheLossIsUncertain() {
        var position = TopicPosition(.next)
        position.lost()
        #expect(position.start == .next)
        #expect(position.receive(epoch: 9, sequence: 4, dropped: 0) == .uncertain)
    }

    @Test func aLossBeforeTheOpeningIsUncertain() {
        var position = TopicPosition(.next)
        position.lost()
        position.opened(OpeningPosition(epoch: 9, next: 4))
        position.lost()
        #expect(position.start == .from(4, epoch: 9))
        #expect(position.receive(epoch: 9, sequence: 4, dropped: 0) == .uncertain)
        #expect(position.receive(epoch: 9, sequence: 5, dropped: 0) == .next)
    }

    @Test func metadataIsGolden() {
        let mime = Array("application/vnd.forebay.opening".utf8)
        #expect(opening == hex("1e") + mime + hex("000010 0000000000000009 0000000000000004"))
        (opening + [1, 2]).withUnsafeBytes {
            #expect(OpeningPosition(metadata: $0) == OpeningPosition(epoch: 9, next: 4))
        }
        for cut in opening.indices {
            opening[..<cut].withUnsafeBytes {
                #expect(OpeningPosition(metadata: UnsafeRawBufferPointer(rebasing: $0[...])) == nil)
            }
        }
    }
}
