// Health and server reflection. Golden bytes come from Python's grpcio-health-checking and grpcio-reflection 1.85.

import Bytes
import ForebayWire
import Testing

@testable import HTTP2

@Suite struct HealthTests {
    @Test func requestsAreRead() throws {
        #expect(try Golden.health.withUnsafeBytes { try Health.parse($0) } == "forebay.v1.PubSub")
        #expect(try [UInt8]().withUnsafeBytes { try Health.parse($0) } == "")
        #expect(
            refusal { () throws(GRPCError) in _ = try inMemory(hex("0a01ff"), Health.parse) }?.status
                == .invalidArgument)
    }

    @Test(arguments: Health.names)
    func whatIsThereServesUntilItDrains(name: String) throws {
        #expect(try Health.check(name, isServing: true) == .serving)
        #expect(try Health.check(name, isServing: false) == .notServing)
        #expect(Health.watch(name, isServing: true) == .serving)
        #expect(Health.watch(name, isServing: false) == .notServing)
    }

    @Test func whatIsNotThereIsNotFoundButCanBeWatched() {
        #expect(
            refusal { () throws(GRPCError) in _ = try Health.check("a.B", isServing: true) }?.status == .notFound)
        #expect(Health.watch("a.B", isServing: true) == .serviceUnknown)
    }

    @Test func answersAreWhatPythonWrites() throws {
        #expect(try hex(message { Health.append(.notServing, to: &$0) }) == "0802")
        let list = try message { Health.appendList(isServing: true, to: &$0) }
        // Python writes the same entries in another order.
        let golden = [
            "0a060a0012020801", "0a170a11666f72656261792e76312e50756253756212020801",
            "0a160a10666f72656261792e76312e41646d696e12020801",
            "0a1b0a15677270632e6865616c74682e76312e4865616c746812020801",
            "0a290a23677270632e7265666c656374696f6e2e76312e5365727665725265666c656374696f6e12020801",
            "0a2e0a28677270632e7265666c656374696f6e2e7631616c7068612e5365727665725265666c656374696f6e12020801",
        ]
        #expect(list == golden.flatMap(hex))
    }
}

@Suite struct ReflectionTests {
    private func answer(_ request: [UInt8]) throws -> [UInt8] {
        try message { out in
            request.withUnsafeBytes { request in
                #expect(refusal { () throws(GRPCError) in try Reflection.answer(request, to: &out) } == nil)
            }
        }
    }

    private func ask(_ number: UInt8, _ text: String) throws -> [UInt8] {
        try answer(written { $0.append(element: number, text) })
    }

    /// The bytes of the one field with this number.
    private func field(_ number: UInt32, in bytes: [UInt8]) throws -> [UInt8]? {
        try bytes.withUnsafeBytes { bytes in
            var reader = ProtobufReader(bytes)
            var found: [UInt8]?
            while let (field, value) = try reader.next() {
                if field == number, case .bytes(let content) = value { found = Array(content) }
            }
            return found
        }
    }

    /// The name of the file in a response; nil for any other kind of response.
    private func file(in answer: [UInt8]) throws -> String? {
        guard let response = try field(4, in: answer), let file = try field(1, in: response) else { return nil }
        return try field(1, in: file).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The status of an error response.
    private func error(in answer: [UInt8]) throws -> UInt8? {
        guard let response = try field(7, in: answer) else { return nil }
        try #require(response.count > 2 && response[0] == 0x08)
        return response[1]
    }

    @Test func listingServicesIsWhatPythonWrites() throws {
        #expect(
            try hex(answer(Golden.listServices))
                == "0a016812060a01683a012a3295010a130a11666f72656261792e76312e5075625375620a120a10666f72656261792e"
                + "76312e41646d696e0a170a15677270632e6865616c74682e76312e4865616c74680a250a23677270632e7265666c65"
                + "6374696f6e2e76312e5365727665725265666c656374696f6e0a2a0a28677270632e7265666c656374696f6e2e7631"
                + "616c7068612e5365727665725265666c656374696f6e")
    }

    @Test(arguments: [
        "forebay/v1/forebay.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto",
        "grpc/reflection/v1alpha/reflection.proto",
    ])
    func filesAreFoundByName(name: String) throws {
        #expect(try file(in: ask(3, name)) == name)
    }

    @Test(arguments: [
        ("forebay.v1.PubSub", "forebay/v1/forebay.proto"), ("forebay.v1.PubSub.Subscribe", "forebay/v1/forebay.proto"),
        ("forebay.v1.Admin", "forebay/v1/forebay.proto"), ("forebay.v1.Message", "forebay/v1/forebay.proto"),
        ("forebay.v1.Message.headers", "forebay/v1/forebay.proto"),
        ("forebay.v1.Message.HeadersEntry", "forebay/v1/forebay.proto"),
        ("forebay.v1.SubscribeRequest.action", "forebay/v1/forebay.proto"),
        ("forebay.v1.Overflow", "forebay/v1/forebay.proto"), ("forebay.v1.BLOCK", "forebay/v1/forebay.proto"),
        ("grpc.health.v1.Health.Watch", "grpc/health/v1/health.proto"),
        ("grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto"),
        ("grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"),
        ("grpc.reflection.v1.ErrorResponse", "grpc/reflection/v1/reflection.proto"),
        ("grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"),
    ])
    func filesAreFoundByWhatTheyDefine(symbol: String, name: String) throws {
        #expect(try file(in: ask(4, symbol)) == name)
    }

    @Test func whatIsNotThereIsAnErrorInTheAnswer() throws {
        for (number, text) in [(3, "x"), (4, "forebay.v1.Nothing"), (4, ""), (4, "forebay.v1"), (6, "a.B")] {
            let answer = try ask(UInt8(number), text)
            #expect(try error(in: answer) == GRPCStatus.notFound.rawValue, "\(text)")
            #expect(try field(2, in: answer) == written { $0.append(element: UInt8(number), text) })
        }
        #expect(try error(in: answer(Golden.extension)) == GRPCStatus.notFound.rawValue)
        #expect(try error(in: answer([])) == GRPCStatus.invalidArgument.rawValue)
        #expect(
            try hex(ask(3, "x"))
                == "12031a01783a2e0805122a6e6f742d666f756e643a205468657265206973206e6f"
                + "2066696c65206f722073796d626f6c202778272e")
    }

    @Test func messagesHaveNoExtensions() throws {
        let answer = try ask(6, "forebay.v1.Message")
        let numbers = try #require(try field(5, in: answer))
        #expect(numbers == written { $0.append(field: 1, "forebay.v1.Message") })
    }

    @Test func theLastQuestionCounts() throws {
        let both = written {
            $0.append(element: 3, "forebay/v1/forebay.proto")
            $0.append(element: 4, "grpc.health.v1.Health")
        }
        #expect(try file(in: answer(both)) == "grpc/health/v1/health.proto")
    }

    @Test func longRequestsAreRefused() throws {
        let limit = Reflection.longestRequest
        #expect(try error(in: ask(3, String(repeating: "x", count: limit - 3))) == GRPCStatus.notFound.rawValue)
        let request = written { $0.append(element: 3, String(repeating: "x", count: limit)) }
        let error = refusal { () throws(GRPCError) in
            var out = ByteBuffer()
            try inMemory(request) { (bytes) throws(GRPCError) in try Reflection.answer(bytes, to: &out) }
        }
        #expect(error?.status == .resourceExhausted)
    }

    @Test func everyMethodServedIsDescribedAndTheOtherWayRound() {
        let described = DescriptorFile.all.flatMap(\.symbols).filter { symbol in
            GRPCMethod.services.contains { symbol.hasPrefix($0 + ".") }
        }
        let served = GRPCMethod.allCases.map { String($0.path.dropFirst().map { $0 == "/" ? "." : $0 }) }
        #expect(Set(described) == Set(served))
    }
}
