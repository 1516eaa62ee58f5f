// Every conversation of Protocol/vectors/conversations.json, however its bytes arrive. The conversations cover both
// sections "answers to the unexpected", keepalive, credit, fragments and the limits.

import Testing

@testable import RSocket

@Suite struct ConversationTests {
    @Test(arguments: Vectors.conversations)
    func frameByFrame(_ conversation: Conversation) throws {
        let peer = try run(conversation) { [$0] }
        #expect(peer.transcript == conversation.expect)
        for error in peer.errors { #expect(error.message.hasSuffix(".") && error.message.count > 20) }
    }

    @Test(arguments: Vectors.conversations)
    func errorsAreAnsweredAsShown(_ conversation: Conversation) throws {
        #expect(try run(conversation) { [$0] }.answers == conversation.answers ?? [])
    }

    @Test(arguments: Vectors.conversations)
    func byteByByte(_ conversation: Conversation) throws {
        let peer = try run(conversation) { $0.map { [$0] } }
        #expect(peer.transcript == conversation.expect)
    }

    @Test(arguments: Vectors.conversations)
    func allAtOnceWhereTheServerDoesNothingBetween(_ conversation: Conversation) throws {
        #expect(try run(conversation, merged: true) { [$0] }.transcript == conversation.expect)
    }

    @Test(arguments: Vectors.conversations)
    func splitInTwoAtEveryPlace(_ conversation: Conversation) throws {
        let longest = conversation.steps.compactMap { $0.client.map { $0.utf8.count / 2 } }.max() ?? 0
        // Long frames are split near their ends and now and then in between.
        for place in 1..<max(2, longest) where place < 80 || place % 97 == 0 {
            let peer = try run(conversation) { bytes in
                place < bytes.count ? [Array(bytes[..<place]), Array(bytes[place...])] : [bytes]
            }
            #expect(peer.transcript == conversation.expect, "split at \(place)")
        }
    }

    @Test(arguments: Vectors.conversations)
    func inRandomPieces(_ conversation: Conversation) throws {
        for seed in 0..<20 as Range<UInt64> {
            var random = SplitMix(seed)
            let peer = try run(conversation, merged: true) { pieces($0, upTo: 40, &random) }
            #expect(peer.transcript == conversation.expect, "seed \(seed)")
        }
    }

    @Test(arguments: Vectors.conversations)
    func nothingIsKeptOnceItIsOver(_ conversation: Conversation) throws {
        let peer = try run(conversation, merged: true) { $0.map { [$0] } }
        let (buffered, streams) = (peer.connection.bufferedBytes, peer.connection.streamCount)
        if peer.connection.isClosed {
            #expect(streams == 0)
            #expect(buffered == 0)
        } else if peer.connection.oldestReassembly == nil {
            #expect(buffered == 0)
        }
    }

    @Test func everyRuleHasConversations() {
        let rules = Set(Vectors.conversations.map(\.rule))
        #expect(
            rules == [
                "Connection: answers to the unexpected", "Streams: answers to the unexpected", "Keepalive", "Fragments",
                "Credits", "Limits",
            ])
        #expect(Set(Vectors.conversations.map(\.name)).count == Vectors.conversations.count)
    }

    private func run(
        _ conversation: Conversation, merged: Bool = false, _ split: ([UInt8]) -> [[UInt8]]
    ) throws -> Peer {
        let peer = Peer(limits: conversation.connectionLimits)
        var waiting: [UInt8] = []
        func flush() {
            for piece in split(waiting) { peer.feed(piece) }
            waiting = []
        }
        for step in conversation.steps {
            if let client = step.client {
                waiting += unhex(client)
                if !merged { flush() }
            }
            if let server = step.server {
                flush()
                try peer.act(server)
            }
        }
        flush()
        return peer
    }
}

/// Splits `bytes` into pieces of 1 to `limit` bytes.
func pieces(_ bytes: [UInt8], upTo limit: Int, _ random: inout SplitMix) -> [[UInt8]] {
    var result: [[UInt8]] = []
    var start = 0
    while start < bytes.count {
        let end = min(bytes.count, start + Int.random(in: 1...limit, using: &random))
        result.append(Array(bytes[start..<end]))
        start = end
    }
    return result
}
