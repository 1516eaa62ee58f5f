// Statuses, texts in headers, timeouts, heads: tables.

import Testing

@testable import HTTP2

@Suite struct GRPCStatusTests {
    @Test func codesAreThoseOfTheProtocol() {
        let names = [
            "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
            "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
            "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
        ]
        #expect(GRPCStatus.allCases.map(\.name) == names)
        #expect(GRPCStatus.allCases.map { Int($0.rawValue) } == Array(0...16))
    }

    @Test(arguments: [
        ("", ""), ("plain text, with ~", "plain text, with ~"), ("100%", "100%25"), ("a\nb\u{0}", "a%0Ab%00"),
        ("søk\u{7f}", "s%C3%B8k%7F"), (" inner and outer ", "%20inner and outer%20"), ("🐟", "%F0%9F%90%9F"),
        (" ", "%20"),
    ])
    func textsAreEncoded(text: String, value: String) {
        #expect(GRPCMessageText.encode(text) == value)
        #expect(GRPCMessageText.decode(value) == text)
    }

    @Test(arguments: [
        ("100%", "100%"), ("%4", "%4"), ("%zz", "%zz"), ("%c3%B8", "ø"), ("%ff", "\u{fffd}"), ("%%41", "%A"),
    ])
    func badlyEncodedTextsAreReadAsFarAsTheyGo(value: String, text: String) {
        #expect(GRPCMessageText.decode(value) == text)
    }

    @Test func longTextsAreCutAtACharacter() {
        let limit = GRPCMessageText.longest
        let fits = String(repeating: "a", count: limit)
        #expect(GRPCMessageText.encode(fits) == fits)
        #expect(GRPCMessageText.encode(fits + "b") == fits)
        for shift in 0..<4 {
            let text = String(repeating: "a", count: limit - shift) + "🐟🐟"
            #expect(GRPCMessageText.encode(text) == String(repeating: "a", count: limit - shift))
        }
        let exact = String(repeating: "a", count: limit - 4) + "🐟"
        #expect(GRPCMessageText.decode(GRPCMessageText.encode(exact + "b")) == exact)
    }

    @Test func trailersTellStatusTextAndWhatASubscriptionLost() {
        #expect(pairs(GRPCHeads.trailers(.ok)) == ["grpc-status: 0"])
        #expect(
            pairs(GRPCHeads.trailers(GRPCError(.aborted, "3 %")))
                == ["grpc-status: 10", "grpc-message: topic failed: 3 %25"])
        #expect(
            pairs(GRPCHeads.trailers(.ok, end: .creditSpent, dropped: 7))
                == ["grpc-status: 0", "forebay-end: credit-spent", "forebay-dropped: 7"])
        #expect(
            pairs(GRPCHeads.trailersOnly(GRPCError(.unimplemented, "no")))
                == [
                    ":status: 200", "content-type: application/grpc", "grpc-accept-encoding: identity",
                    "grpc-status: 12", "grpc-message: unsupported: no",
                ])
        #expect(
            pairs(GRPCHeads.trailersOnly(.ok, end: .completed)).suffix(2) == [
                "grpc-status: 0", "forebay-end: completed",
            ])
    }
}

@Suite struct GRPCCallTests {
    private static let plain = [("content-type", "application/grpc"), ("te", "trailers")]

    private func call(
        _ path: String = "/forebay.v1.PubSub/Subscribe", method: String = "POST", _ headers: [(String, String)] = plain
    ) -> Result<GRPCCall, GRPCHeadRefusal> {
        do throws(GRPCHeadRefusal) {
            return .success(try GRPCCall.parse(method: method, path: path, headers: headers.map { ($0.0, $0.1) }))
        } catch {
            return .failure(error)
        }
    }

    private func status(_ result: Result<GRPCCall, GRPCHeadRefusal>) -> GRPCStatus? {
        guard case .failure(.call(let error)) = result else { return nil }
        return error.status
    }

    @Test(arguments: GRPCMethod.allCases)
    func everyMethodIsFoundByItsPath(method: GRPCMethod) {
        #expect(call(method.path) == .success(GRPCCall(method: method, timeout: nil)))
    }

    @Test func servicesAreListedOnce() {
        #expect(
            GRPCMethod.services == [
                "forebay.v1.PubSub", "forebay.v1.Admin", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
            ])
    }

    @Test func unknownMethodsAreToldFromUnknownServices() {
        #expect(
            call("/forebay.v1.PubSub/Peek")
                == .failure(
                    .call(
                        GRPCError(
                            .unimplemented,
                            "'Peek' is not a method of forebay.v1.PubSub; it has Subscribe, Publish, PublishOne."))))
        for path in [
            "", "/", "//", "/forebay.v1.PubSub", "/forebay.v1.PubSub/", "/forebay.v1.PubSub/Subscribe/x", "/a/b",
        ] {
            #expect(status(call(path)) == .unimplemented, "\(path)")
        }
        guard case .failure(.call(let error)) = call("/" + String(repeating: "x", count: 10_000)) else {
            Issue.record("taken")
            return
        }
        #expect(error.message.utf8.count < 400)
    }

    @Test(arguments: [
        ("application/grpc", true), ("application/grpc+proto", true), ("Application/GRPC", true),
        ("application/grpc;charset=utf-8", true), ("application/grpc+proto ; x=1", true),
        ("application/grpc+json", false), ("application/grpc-web", false), ("application/grpcs", false),
        ("application/json", false), ("", false),
    ])
    func contentTypesDecideBetween415AndACall(type: String, isTaken: Bool) {
        let result = call(GRPCMethod.publish.path, [("content-type", type)])
        #expect(
            result
                == (isTaken
                    ? .success(GRPCCall(method: .publish, timeout: nil)) : .failure(.http(status: 415, allow: nil))))
        #expect(GRPCCall.isMeant([("content-type", type)]) == type.lowercased().hasPrefix("application/grpc"))
    }

    @Test func otherMethodsThanPOSTGet405() {
        #expect(call(method: "GET") == .failure(.http(status: 405, allow: "POST")))
        #expect(call([]) == .failure(.http(status: 415, allow: nil)))
        #expect(pairs(GRPCHeadRefusal.http(status: 405, allow: "POST").headers) == [":status: 405", "allow: POST"])
        #expect(pairs(GRPCHeadRefusal.http(status: 415, allow: nil).headers) == [":status: 415"])
    }

    @Test func compressionIsUnimplementedAndTheAnswerTellsWhatIsNot() {
        #expect(
            call(Self.plain + [("grpc-encoding", "identity")]) == .success(GRPCCall(method: .subscribe, timeout: nil)))
        let refused = call(Self.plain + [("grpc-encoding", "gzip")])
        #expect(status(refused) == .unimplemented)
        guard case .failure(let refusal) = refused else { return }
        #expect(pairs(refusal.headers).contains("grpc-accept-encoding: identity"))
    }

    @Test(arguments: [
        ("1n", 1), ("7u", 7000), ("100m", 100_000_000), ("30S", 30_000_000_000), ("2M", 120_000_000_000),
        ("1H", 3_600_000_000_000), ("0S", 0), ("00000001n", 1), ("99999999S", 99_999_999_000_000_000),
        ("99999999M", 5_999_999_940_000_000_000), ("99999999H", UInt64(Int64.max)), ("9999999H", UInt64(Int64.max)),
    ])
    func timeouts(text: String, nanoseconds: UInt64) {
        #expect(
            call(Self.plain + [("grpc-timeout", text)])
                == .success(GRPCCall(method: .subscribe, timeout: nanoseconds)))
    }

    @Test(arguments: ["", "S", "1", "1s", "1h", "-1S", "+1S", "1 S", " 1S", "1.5S", "123456789n", "1SS", "٣S", "1µ"])
    func timeoutsThatAreNone(text: String) {
        #expect(status(call(Self.plain + [("grpc-timeout", text)])) == .invalidArgument)
    }
}

extension GRPCCallTests {
    private func call(_ headers: [(String, String)]) -> Result<GRPCCall, GRPCHeadRefusal> {
        call("/forebay.v1.PubSub/Subscribe", headers)
    }

    private func call(_ path: String, _ headers: [(String, String)]) -> Result<GRPCCall, GRPCHeadRefusal> {
        call(path, method: "POST", headers)
    }
}

private func pairs(_ headers: [(name: String, value: String)]) -> [String] {
    headers.map { "\($0.name): \($0.value)" }
}
