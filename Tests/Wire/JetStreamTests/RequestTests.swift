// Requests, byte by byte. The server has answered each of them: see Captured.

import Testing

@testable import JetStream

@Suite struct RequestTests {
    private func text(_ request: JetStreamRequest) -> String {
        "\(request.subject) \(String(decoding: request.payload, as: UTF8.self))"
    }

    @Test func requestsNameTheirStream() {
        #expect(
            text(.findStream(bySubject: "fb.p.-.t")) == #"$JS.API.STREAM.NAMES {"subject":"fb.p.-.t"}"#)
        #expect(
            text(.streams(withSubjects: "fb.p.>", offset: 256))
                == #"$JS.API.STREAM.LIST {"subject":"fb.p.>","offset":256}"#)
        #expect(text(.info("FB_1")) == "$JS.API.STREAM.INFO.FB_1 ")
        #expect(text(.message(1, "FB_1")) == #"$JS.API.STREAM.MSG.GET.FB_1 {"seq":1}"#)
        #expect(
            text(.directGet("FB_1", from: 1, count: 10, maxBytes: 1_000_000))
                == #"$JS.API.DIRECT.GET.FB_1 {"seq":1,"batch":10,"max_bytes":1000000}"#)
        #expect(
            text(.lastMessage("fb.p.-.t", "FB_1")) == #"$JS.API.STREAM.MSG.GET.FB_1 {"last_by_subj":"fb.p.-.t"}"#)
    }

    /// Members that an update does not change are those that the server answered.
    @Test func updatesRepeatTheConfiguration() throws {
        let info = try read(Captured.info, StreamInfo.init)
        let sealed = text(.seal(info, metadata: ["forebay-end": "completed"]))
        #expect(sealed.hasPrefix(#"$JS.API.STREAM.UPDATE.FB_1 {"name":"FB_1","subjects":["fb.p.*.t"],"#))
        #expect(
            sealed.hasSuffix(
                #","forebay-end":"completed","forebay-topic":"t\"\u0001"},"sealed":true,"discard":"new","#
                    + #""deny_delete":true,"deny_purge":true,"max_age":0,"allow_rollup_hdrs":false}"#), "\(sealed)")
        let kept = [
            #""num_replicas":1"#, #""allow_direct":true"#, #""republish":{"src":"fb.p.*.t","dest":"fb.l.t"}"#,
        ]
        for member in kept { #expect(sealed.contains(member), "\(member)") }
        let retired = text(.retire(info, metadata: ["a": "b"]))
        #expect(retired.contains(#","subjects":[],"republish":null,"metadata":{"#) && retired.contains(#""a":"b""#))
        for name in ["sealed", "subjects", "discard", "max_age", "metadata"] {
            for update in [sealed, retired] { #expect(update.ranges(of: "\"\(name)\":").count == 1, "\(name)") }
        }
    }

    @Test func aConfigurationHasItsMembers() {
        var configuration = StreamConfiguration(name: "FB_1", subjects: ["fb.p.*.t", "a.>"])
        #expect(
            text(.create(configuration))
                == #"$JS.API.STREAM.CREATE.FB_1 {"name":"FB_1","subjects":["fb.p.*.t","a.>"],"retention":"limits","#
                + #""storage":"file","discard":"old","num_replicas":1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"#
                + #""duplicate_window":120000000000,"allow_direct":true}"#)
        configuration.subjects = ["fb.p.*.t"]
        configuration.republish = .init(source: "fb.p.*.t", destination: "fb.l.t")
        configuration.replicas = 3
        configuration.maxMessages = 5
        configuration.maxBytes = 6
        configuration.maxAge = 7_000_000_000
        configuration.duplicateWindow = 1_000_000_000
        configuration.metadata = ["forebay-topic": "t", "a": "b"]
        #expect(
            text(.create(configuration))
                == #"$JS.API.STREAM.CREATE.FB_1 {"name":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","#
                + #""storage":"file","discard":"old","num_replicas":3,"max_msgs":5,"max_bytes":6,"#
                + #""max_age":7000000000,"duplicate_window":1000000000,"allow_direct":true,"#
                + #""republish":{"src":"fb.p.*.t","dest":"fb.l.t"},"metadata":{"a":"b","forebay-topic":"t"}}"#)
    }

    @Test func theDuplicateWindowIsNotLongerThanTheMessagesAreKept() {
        var configuration = StreamConfiguration(name: "A", subjects: [])
        configuration.maxAge = 1_000_000_000
        #expect(text(.create(configuration)).contains(#""max_age":1000000000,"duplicate_window":1000000000,"#))
    }

    @Test func textIsEscaped() {
        var configuration = StreamConfiguration(name: "A", subjects: [])
        configuration.metadata = ["k\"": "\u{1}\\ä\n"]
        let json = text(.create(configuration))
        #expect(json.hasSuffix(#""metadata":{"k\"":"\u0001\\ä\n"}}"#))
        #expect(text(.findStream(bySubject: "\"}")) == #"$JS.API.STREAM.NAMES {"subject":"\"}"}"#)
    }
}
