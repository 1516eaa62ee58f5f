// Whatever arrives, reading it returns: every prefix of the captured answers, and random changes of them.

import NATS
import Testing

@testable import JetStream

@Suite struct MutationTests {
    /// Reads the bytes as everything. Returns how many of the readings succeeded.
    private func readAll(_ headers: [UInt8]?, _ payload: [UInt8]) -> Int {
        withMessage(headers, payload) { message in
            var count = 0
            if (try? StreamNames(message)) != nil { count += 1 }
            if let info = try? StreamInfo(message) {
                #expect(info.firstSequence > 0 && info.firstSequence <= info.lastSequence + 1)
                count += 1
            }
            if let answer = try? PublishAnswer(message) {
                #expect(answer.sequence > 0)
                count += 1
            }
            if let stored = try? StoredMessage(message) {
                #expect(stored.sequence > 0 && stored.time >= 0)
                count += stored.withMessage { $0.sequence == stored.sequence ? 1 : 0 }
            }
            if let item = try? DirectGetItem(message) { count += describe(item).isEmpty ? 0 : 1 }
            return count
        }
    }

    @Test func prefixesOfAnswersAreErrors() {
        for answer in Captured.answers {
            let bytes = Array(answer.utf8)
            for count in 0..<bytes.count { #expect(readAll(nil, Array(bytes[..<count])) == 0) }
        }
    }

    @Test func prefixesOfHeadersAreRead() {
        for block in Captured.blocks {
            let bytes = Array(block.utf8)
            #expect(readAll(bytes, []) == 1)
            for count in 0..<bytes.count { #expect(readAll(Array(bytes[..<count]), []) <= 1) }
        }
    }

    @Test(arguments: [1, 2, 3, 4]) func changedAnswersAreRead(_ seed: UInt64) {
        var random = SplitMix(state: seed)
        var successes = 0
        for _ in 0..<1_000 {
            for (texts, isHeaders) in [(Captured.answers, false), (Captured.blocks, true)] {
                var bytes = Array(texts.randomElement(using: &random)!.utf8)
                for _ in 0..<Int.random(in: 1...3, using: &random) { change(&bytes, &random) }
                successes += isHeaders ? readAll(bytes, []) : readAll(nil, bytes)
            }
        }
        // Neither all nor none.
        #expect((100..<1_900).contains(successes))
    }

    private func change(_ bytes: inout [UInt8], _ random: inout SplitMix) {
        guard !bytes.isEmpty else { return }
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: bytes.remove(at: place)
        case 3: bytes.insert(Array("09-:\"{}[], \r\n\\".utf8).randomElement(using: &random)!, at: place)
        default:
            let end = Int.random(in: place...bytes.count, using: &random)
            bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &random))
        }
    }
}

/// Random numbers from a seed.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
