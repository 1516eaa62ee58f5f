// The gRPC messages of subscriptions in Protocol/vectors/http.json: what the broker and the client read in their bytes.

import Bytes
import Foundation
import ForebayWire
import Testing

@testable import HTTP2

@Suite struct VectorTests {
    struct File: Decodable {
        var vectors: [Exchange]
    }
    struct Exchange: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var steps: [Step]
        var testDescription: String { name }

        /// The messages of its subscriptions, without prefixes.
        func messages(from: String) -> [(shown: Shown, bytes: [UInt8])] {
            let calls = steps.filter { $0.path == "/forebay.v1.PubSub/Subscribe" }.map(\.call)
            return steps.filter { $0.from == from && calls.contains($0.call) }.compactMap { step in
                guard let shown = step.message, let bytes = step.bytes else { return nil }
                return (shown, Array(unhex(bytes).dropFirst(5)))
            }
        }
    }
    struct Step: Decodable, Sendable {
        var from: String
        var call: Int
        var path: String?
        var message: Shown?
        var bytes: String?
    }
    /// Either side's message, in protobuf's JSON form.
    struct Shown: Decodable, Sendable {
        struct Open: Decodable, Sendable {
            var topic: String
            var requestN: UInt32
            var positions: [Position]?
        }
        struct Position: Decodable, Sendable {
            var topic: String
            var sequence: String?
        }
        struct Message: Decodable, Sendable {
            var topic: String
            var sequence: String
            var payload: Data
        }
        struct End: Decodable, Sendable {
            var topic: String
            var failure: String?
        }
        var open: Open?
        var requestN: UInt32?
        var messages: [Message]?
        var outstandingCredit: String?
        var dropped: String?
        var topicEnd: End?
    }

    static let exchanges: [Exchange] = {
        let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../../Protocol/vectors/http.json").standardized
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        do {
            let all = try decoder.decode(File.self, from: Data(contentsOf: url)).vectors
            let exchanges = all.filter { !$0.messages(from: "client").isEmpty }
            precondition(exchanges.count > 3, "there are no subscriptions over gRPC")
            return exchanges
        } catch {
            fatalError("\(url.path): \(error)")
        }
    }()

    @Test(arguments: exchanges) func theBrokerReadsWhatIsShown(_ exchange: Exchange) throws {
        for (shown, bytes) in exchange.messages(from: "client") {
            try bytes.withUnsafeBytes { bytes in
                do throws(GRPCError) {
                    switch try SubscribeAction.parse(bytes) {
                    case .request(let n): #expect(n == shown.requestN)
                    case .open(let open):
                        #expect(open.topic == shown.open?.topic && open.requestN == shown.open?.requestN)
                        let positions = shown.open?.positions ?? []
                        #expect(open.positions.map(\.topic) == positions.map(\.topic))
                        #expect(open.positions.map { "\($0.sequence)" } == positions.compactMap(\.sequence))
                    }
                } catch {
                    let positions = try #require(shown.open?.positions, "\(error)")
                    #expect(positions.contains { $0.sequence == nil })
                }
            }
        }
    }

    @Test(arguments: exchanges) func theClientReadsWhatIsShown(_ exchange: Exchange) throws {
        for (shown, bytes) in exchange.messages(from: "broker") {
            try bytes.withUnsafeBytes { bytes in
                var response = try ReceivedMessages(bytes)
                #expect("\(response.outstandingCredit)" == shown.outstandingCredit ?? "0")
                #expect("\(response.dropped)" == shown.dropped ?? "0")
                #expect(response.ended?.topic == shown.topicEnd?.topic)
                #expect(response.ended?.failure == shown.topicEnd?.failure)
                for message in shown.messages ?? [] {
                    let found = try #require(try response.next())
                    #expect(found.topic.elementsEqual(message.topic.utf8) && "\(found.sequence)" == message.sequence)
                    #expect(found.payload.elementsEqual(message.payload))
                }
                #expect(try response.next() == nil)
            }
        }
    }
}

private func unhex(_ text: String) -> [UInt8] {
    let digits = text.utf8.map { UInt8($0 < 0x3a ? $0 - 0x30 : $0 - 0x57) }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
