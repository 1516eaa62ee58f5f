// Answers in JSON: what they mean, and what makes them errors.

import NATS
import Testing

@testable import JetStream

@Suite struct AnswerTests {
    @Test func namesAreListed() throws {
        #expect(try read(Captured.names, StreamNames.init).names == ["FB_1"])
        #expect(try read(Captured.noNames, StreamNames.init).names == [])
    }

    @Test(
        arguments: [
            (Captured.created, 0, 1, 0, false), (Captured.emptyInfo, 0, 1, 0, false), (Captured.info, 2, 1, 2, false),
            (Captured.trimmedInfo, 5, 4, 8, false), (Captured.purgedInfo, 0, 9, 8, false),
            (Captured.sealed, 0, 9, 8, true),
        ] as [(String, UInt64, UInt64, UInt64, Bool)])
    func anInfoHasTheStreamsState(_ json: String, _ messages: UInt64, _ first: UInt64, _ last: UInt64, _ sealed: Bool)
        throws
    {
        let info = try read(json, StreamInfo.init)
        #expect(info.name == "FB_1" && info.subjects == ["fb.p.*.t"])
        #expect(info.messages == messages && info.firstSequence == first && info.lastSequence == last)
        #expect(info.isSealed == sealed)
    }

    @Test func aListHasTheStreams() throws {
        let list = try read(Captured.list, StreamList.init)
        #expect(list.total == 1 && list.missing == 0)
        #expect(list.streams.map(\.name) == ["FB_1"] && list.streams.map(\.lastSequence) == [1])
        #expect(list.streams.first?.metadata["forebay-topic"] == "t")
        let partial = Captured.list.replacing(#""streams":"#, with: #""missing":["FB_2"],"streams":"#)
        #expect(try read(partial, StreamList.init).missing == 1)
        #expect(throws: JetStreamError.self) { try read(#"{"streams":[]}"#, StreamList.init) }
        #expect(throws: JetStreamError.self) { try read(#"{"total":1,"streams":[{}]}"#, StreamList.init) }
    }

    @Test func aPublishIsAcknowledged() throws {
        let answer = try read(Captured.published, PublishAnswer.init)
        #expect(answer.stream == "FB_1" && answer.sequence == 1 && !answer.isDuplicate)
        let duplicate = try read(Captured.duplicate, PublishAnswer.init)
        #expect(duplicate.stream == "FB_1" && duplicate.sequence == 1 && duplicate.isDuplicate)
    }

    @Test func aStoredMessageIsDecoded() throws {
        let stored = try read(Captured.stored, StoredMessage.init)
        #expect(stored.subject == "fb.p.-.t" && stored.sequence == 1 && stored.time == 1_795_794_864_177_327_246)
        #expect(stored.withMessage(describe) == " fb.p.-.t 1 1795794864177327246 n.1 hello")
        let binary = try read(Captured.storedBinary, StoredMessage.init)
        binary.withMessage { message in
            #expect(message.headers == nil && message.sequence == 2)
            #expect(Array(message.payload) == [0, 0xFF, 0x0D, 0x0A, 1])
        }
    }

    @Test func emptyAndMalformedPartsOfAStoredMessageAreRead() throws {
        let json = #"{"message":{"subject":"s","seq":3,"hdrs":"Z2FyYmFnZQ==","time":"2026-11-27T15:58:13Z"}}"#
        try read(json, StoredMessage.init).withMessage { message in
            #expect(message.headers == nil && message.payload.isEmpty && message.sequence == 3)
        }
    }

    @Test(
        arguments: [
            (Captured.noStream, .streamNotFound, 10059), (Captured.nameInUse, .nameInUse, 10058),
            (Captured.overlap, .subjectsOverlap, 10065), (Captured.replicas, .replicas, 10074),
            (Captured.noMessage, .messageNotFound, 10037), (Captured.wrongLast, .wrongLastSequence, 10071),
            (Captured.wrongStream, .wrongStream, 10060), (Captured.publishSealed, .sealed, 10109),
            (Captured.full, .full, 10077), (Captured.tooLarge, .tooLarge, 10054),
        ] as [(String, JetStreamError.Kind, Int)])
    func errorsHaveTheirKind(_ json: String, _ kind: JetStreamError.Kind, _ code: Int) throws {
        for found in [
            try error(json, StreamNames.init), try error(json, StreamInfo.init), try error(json, PublishAnswer.init),
            try error(json, StoredMessage.init),
        ] {
            #expect(found.kind == kind && found.code == code && !found.isTemporary)
        }
    }

    @Test func errorsSayWhatToDo() throws {
        #expect(
            try error(Captured.replicas, StreamInfo.init).description
                == "unavailable: NATS JetStream answered: replicas > 1 not supported in non-clustered mode (10074). "
                + "Add NATS servers to the cluster, or configure fewer replicas.")
        let long = #"{"error":{"code":500,"err_code":1,"description":"\#(String(repeating: "ä", count: 9999))"}}"#
        let found = try error(long, StreamInfo.init)
        #expect(found.kind == .other && found.word == .unavailable && found.sentence.utf8.count < 400)
    }

    @Test(arguments: [
        (10008, 503, true), (10009, 500, true), (10158, 409, true), (99999, 503, true), (99999, 429, true),
        (99999, 400, false), (10077, 503, false), (10076, 503, false), (10002, 400, false),
    ])
    func someErrorsPass(_ code: Int, _ status: Int, _ isTemporary: Bool) throws {
        let json = #"{"error":{"code":\#(status),"err_code":\#(code)}}"#
        #expect(try error(json, PublishAnswer.init).isTemporary == isTemporary)
    }

    /// A cluster of three servers answered this.
    @Test func aClusterMayHaveTooFewServers() throws {
        let json =
            #"{"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10005,"#
            + #""description":"no suitable peers for placement"}}"#
        #expect(try error(json, StreamInfo.init).kind == .replicas)
    }

    @Test func withoutResponderARequestMayBeRepeated() throws {
        let found = try #require(throws: JetStreamError.self) {
            try read(Captured.noResponders, "") { _ = try PublishAnswer($0) }
        }
        #expect(found.kind == .temporary && found.isTemporary && found.code == nil)
    }

    @Test(arguments: [
        "", "[]", "{}", "null", #"{"error":{}}"#, #"{"error":null}"#, #"{"error":{"err_code":10059}}"#,
        #"{"stream":"S"}"#, #"{"seq":1}"#, #"{"stream":"S","seq":0}"#, #"{"stream":"S","seq":-1}"#,
        #"{"stream":"S","seq":1.5}"#, #"{"stream":"S","seq":9223372036854775808}"#, #"{"stream":1,"seq":1}"#,
        #"{"total":1,"streams":null}"#, #"{"total":0}"#, #"{"total":1,"streams":[1]}"#, #"{"streams":[]}"#,
        #"{"config":{"name":"S","subjects":[]}}"#, #"{"config":1,"state":2}"#,
        state(#""messages":1,"first_seq":2,"last_seq":0"#), state(#""messages":1,"first_seq":0,"last_seq":1"#),
        state(#""messages":1,"first_seq":1"#), state(#""messages":1,"last_seq":1"#),
        state(#""first_seq":1,"last_seq":1"#),
        stored(#""seq":1,"time":"2026-11-27T15:58:13Z""#), stored(#""subject":"s","time":"2026-11-27T15:58:13Z""#),
        stored(#""subject":"s","seq":0,"time":"2026-11-27T15:58:13Z""#), stored(#""subject":"s","seq":1"#),
        stored(#""subject":"s","seq":1,"time":"2026""#),
        stored(#""subject":"s","seq":1,"time":"2026-11-27T15:58:13Z","data":1"#),
        stored(#""subject":"s","seq":1,"time":"2026-11-27T15:58:13Z","data":"a""#),
        stored(#""subject":"s","seq":1,"time":"2026-11-27T15:58:13Z","hdrs":"====""#),
    ])
    func malformedAnswersAreErrors(_ json: String) throws {
        for found in [
            try error(json, StreamNames.init), try error(json, StreamInfo.init), try error(json, PublishAnswer.init),
            try error(json, StoredMessage.init),
        ] {
            #expect(found.kind == .malformed && found.word == .protocol && found.isTemporary)
        }
    }

    private static func state(_ members: String) -> String {
        #"{"config":{"name":"S","subjects":[]},"state":{\#(members)}}"#
    }

    private static func stored(_ members: String) -> String { #"{"message":{\#(members)}}"# }

    @Test func theLastSequenceMayBeTheHighest() throws {
        let json = AnswerTests.state(#""messages":0,"first_seq":0,"last_seq":9223372036854775807"#)
        #expect(try read(json, StreamInfo.init).firstSequence == 1 << 63)
    }
}
