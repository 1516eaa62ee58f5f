// Error words: the table in Protocol/errors.md, and how each protocol carries a word.

import Bytes
import Foundation
import ForebayWire
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct ErrorWordTests {
    /// A row of the table: the code that a stream error has in each protocol.
    struct Row: CustomStringConvertible {
        var word: String
        var rsocket: String
        var grpc: String
        /// The first HTTP status in the row; nil if the word occurs only in a stream.
        var http: Int?

        var description: String { word }
    }

    static let rows: [Row] = {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Protocol/errors.md").standardizedFileURL
        let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 6, cells[0].hasPrefix("`") else { return nil }
            return Row(
                word: cells[0].trimmingCharacters(in: ["`"]), rsocket: cells[2], grpc: cells[3],
                http: Int(cells[4].prefix(3)))
        }
    }()

    @Test func theTableHasEveryWord() {
        #expect(Self.rows.map(\.word) == ErrorWord.allCases.map(\.text))
    }

    @Test func wordsAreReadBack() {
        for word in ErrorWord.allCases {
            #expect(ErrorWord(beginning: word.text("A sentence: with a colon.")) == word)
            #expect(word.name.utf8.allSatisfy { (97...122).contains($0) || $0 == 45 })
        }
        for text in ["", "limit", "limits: no", "A sentence.", ": x", "Limit: no"] {
            #expect(ErrorWord(beginning: text) == nil)
        }
    }

    @Test(arguments: rows) func codesAreThoseOfTheTable(_ row: Row) throws {
        let word = try #require(ErrorWord.allCases.first { $0.text == row.word })
        let refusal = Refusal(word, "Because.")
        #expect(refusal.code.name == row.rsocket)
        #expect(refusal.status.name == row.grpc)
        if let http = row.http { #expect(refusal.problem.status == http) }
    }

    /// A stream that fails for each reason, as its client sees it.
    @Test(arguments: rows) func streamsEndWithTheWord(_ row: Row) throws {
        let word = try #require(ErrorWord.allCases.first { $0.text == row.word })
        let text = "\(row.word): Because."
        let broker = TestBroker()
        func end(_ connection: Connection) throws {
            let stream = try #require(connection.streams.first)
            broker.shards[0].parts.output.ends.fail(stream, Refusal(word, "Because."))
            broker.run()
        }
        let client = broker.connect()
        client.subscribe("t")
        try end(try #require(broker.shards[0].connections.find(client.id)))
        #expect(client.received().last == "1:! \(String(Refusal(word, "").code.rawValue, radix: 16)) \(text)")
        let peer = TestGRPC(broker)
        let call = peer.subscribe("t")
        try end(try #require(broker.shards[0].connections.find(peer.client.id)))
        peer.read()
        #expect(peer[call].status == String(Refusal(word, "").status.rawValue) && peer[call].message == text)
        // A stream that has begun ends with the text, unless the client is to resume it elsewhere.
        let listener = TestGRPC(broker)
        let stream = listener.listen("t")
        try end(try #require(broker.shards[0].connections.find(listener.client.id)))
        listener.read()
        let isResumed = word == .draining || word == .unavailable
        let expected = isResumed ? "" : "{\"end\":\"failed\",\"message\":\"\(text)\",\"dropped\":0}\n"
        #expect(listener[stream].text == expected)
        // A stream that has not begun is answered with a problem.
        var out = ByteBuffer()
        Refusal(word, "Because.").problem.append(into: &out)
        #expect(String(decoding: out.readable, as: UTF8.self).contains("\"detail\":\"\(text)\""))
    }
}
