// Operations of a client, and their bytes.

import Bytes
import Testing

@testable import NATS

@Suite struct NATSWriterTests {
    private func publish(
        _ subject: String, reply: String? = nil, headers: [(String, String)]? = nil, _ payload: String
    ) throws -> String {
        var block: NATSHeaderBlock?
        if let headers {
            block = NATSHeaderBlock()
            for (name, value) in headers { try block?.append(name, value) }
        }
        return try written { out in
            try withRaw(payload) { bytes in
                try NATSWriter.publish(subject, reply: reply, headers: block, payload: bytes, into: &out)
            }
        }
    }

    @Test func operationsHaveTheseBytes() throws {
        #expect(written(NATSWriter.ping) == "PING\r\n")
        #expect(written(NATSWriter.pong) == "PONG\r\n")
        #expect(try publish("a.b", "hello") == "PUB a.b 5\r\nhello\r\n")
        #expect(try publish("a", reply: "_INBOX.1", "") == "PUB a _INBOX.1 0\r\n\r\n")
        #expect(
            try publish("a", headers: [("A", "1"), ("A", "ü")], "hi")
                == "HPUB a 25 27\r\nNATS/1.0\r\nA: 1\r\nA: ü\r\n\r\nhi\r\n")
        #expect(try publish("a", reply: "b", headers: [], "x") == "HPUB a b 12 13\r\nNATS/1.0\r\n\r\nx\r\n")
        let sub = try written { out in
            try NATSWriter.subscribe("a.*.>", subscription: 12, into: &out)
            try NATSWriter.subscribe("b", queue: "workers", subscription: 3, into: &out)
            NATSWriter.unsubscribe(12, into: &out)
            NATSWriter.unsubscribe(3, after: 10, into: &out)
        }
        #expect(sub == "SUB a.*.> 12\r\nSUB b workers 3\r\nUNSUB 12\r\nUNSUB 3 10\r\n")
    }

    @Test func connectHasTheMembersThatAreSet() {
        let first = """
            CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"echo":true,"protocol":1,\
            "lang":"swift","tls_required":
            """
        var request = NATSConnect(version: "1.2", name: "a \"node\"\n")
        let plain = written { NATSWriter.connect(request, into: &$0) }
        #expect(plain == first + #"false,"version":"1.2","name":"a \"node\"\n"}"# + "\r\n")
        (request.usesTLS, request.user, request.password, request.token) = (true, "u", "p\\", "t")
        (request.jwt, request.nkey, request.signature) = ("j", "n", "s")
        let full = written { NATSWriter.connect(request, into: &$0) }
        #expect(
            full == first
                + #"true,"version":"1.2","name":"a \"node\"\n","user":"u","pass":"p\\","auth_token":"t","jwt":"j""#
                + #","nkey":"n","sig":"s"}"# + "\r\n")
    }

    @Test(arguments: [
        "", "a b", "a..b", ".a", "a.", "a.*", "a.>", "a\r\nPING", "a\t", "a\u{0}", ">", "*.a", "a.\u{7F}",
    ])
    func publishesOnlyToSubjects(subject: String) {
        #expect(!NATSSubject.isValid(subject))
        for (first, second) in [(subject, "a"), ("a", subject)] {
            #expect {
                _ = try publish(first, reply: second, "x")
            } throws: {
                let error = $0 as? NATSError
                return error?.word == .invalid && error?.endsConnection == false
                    && error?.sentence.contains("\n") == false
            }
        }
    }

    @Test func subjectsAndFilters() {
        for subject in ["a", "a.b.c", "$JS.API.INFO", "ü.€", "a*b", "a>.b", "**"] {
            #expect(NATSSubject.isValid(subject) && NATSSubject.isValid(filter: subject))
        }
        for filter in [">", "*", "a.*", "a.>", "*.*.>", "*.a"] {
            #expect(!NATSSubject.isValid(filter) && NATSSubject.isValid(filter: filter))
        }
        for filter in ["", ">.a", "a.>.b", "a..>", "a b", "a.>.", ".", "a\n"] {
            #expect(!NATSSubject.isValid(filter: filter))
            #expect(throws: NATSError.self) {
                var out = ByteBuffer()
                try NATSWriter.subscribe(filter, subscription: 1, into: &out)
            }
        }
        for queue in ["", "a b", "a\n"] {
            #expect(throws: NATSError.self) {
                var out = ByteBuffer()
                try NATSWriter.subscribe("a", queue: queue, subscription: 1, into: &out)
            }
        }
    }

    @Test func linesHaveALimit() throws {
        let longest = String(repeating: "s", count: NATSLimits.maxWrittenLine - 6)
        #expect(try publish(longest, "") == "PUB \(longest) 0\r\n\r\n")
        #expect {
            _ = try publish(longest + "s", "")
        } throws: {
            ($0 as? NATSError)?.word == .tooLarge
        }
    }

    /// What is written is parsed to the same message.
    @Test func messagesSurviveARoundTrip() throws {
        let bytes = try publish("a.b", reply: "c", headers: [("X", "1")], "payload")
        #expect(
            parsed("HMSG a.b 7" + bytes.dropFirst(8)) == [
                "message a.b 7 reply=c headers=NATS/1.0\r\nX: 1\r\n\r\n payload=payload"
            ])
    }
}
