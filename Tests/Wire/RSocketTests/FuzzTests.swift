// Mutated conversations: for any bytes, in any pieces, nothing traps, nothing grows beyond its limit, and the pieces do
// not affect the result. Seeds are fixed; a failing seed is reported and can be kept.

import Bytes
import Testing

@testable import RSocket

@Suite struct FuzzTests {
    private static let limits: ConnectionLimits = {
        var limits = ConnectionLimits()
        limits.maxPayload = 300
        limits.maxMetadata = 100
        limits.maxKeepaliveData = 20
        limits.maxSetup = 300
        limits.maxHeld = 2000
        limits.maxReassembly = 3000
        limits.maxPartials = 5
        limits.maxStreams = 8
        return limits
    }()

    private static let corpus = Vectors.conversations.map { $0.steps.compactMap { $0.client.map(unhex) } }

    @Test(arguments: 0..<8)
    func mutatedConversationsNeitherTrapNorGrow(round: Int) {
        for seed in 0..<400 {
            let seed = UInt64(round * 1_000_000 + seed)
            var random = SplitMix(seed)
            let bytes = mutated(Self.corpus, &random)
            let whole = peer(seed)
            whole.feed(bytes)
            let cut = peer(seed)
            for piece in pieces(bytes, upTo: 50, &random) {
                cut.feed(piece)
                let (buffered, streams) = (cut.connection.bufferedBytes, cut.connection.streamCount)
                // The longest frame built is an ERROR of 4,096 bytes of text, in a buffer whose size is a power of two.
                #expect(buffered <= 2 * Self.limits.maxReassembly + 8192, "seed \(seed)")
                #expect(streams <= 8 + 5, "seed \(seed)")
            }
            #expect(whole.transcript == cut.transcript, "seed \(seed)")
        }
    }

    @Test func theDamageLeavesEnoughIntactToGetEverywhere() {
        var kinds: Set<Substring> = []
        for seed in 0..<3200 as Range<UInt64> where kinds.count < 12 {
            var random = SplitMix(seed)
            let whole = peer(seed)
            whole.feed(mutated(Self.corpus, &random))
            kinds.formUnion(whole.transcript.compactMap { $0.split(separator: " ").first })
        }
        #expect(kinds.count == 12, "\(kinds)")
    }

    @Test func randomBytesDecodeOrAreRefused() throws {
        var random = SplitMix(99)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...60, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Mostly known frame types, with the flag M about half of the time.
            if bytes.count > 5 { bytes[4] = UInt8.random(in: 0...16, using: &random) << 2 | bytes[4] & 1 }
            do {
                let frame = try decode(bytes)
                if let content = contentOf(frame) {
                    #expect(content.data.upperBound == bytes.count)
                    #expect((content.metadata?.upperBound ?? content.data.lowerBound) == content.data.lowerBound)
                }
            } catch let error as RSocketError {
                #expect(error.code == .connectionError)
            }
        }
    }

    @Test func mutatedMetadataIsReadOrRefused() throws {
        let corpus = Vectors.metadata.compactMap { $0.hex.map(unhex) }
        var random = SplitMix(7)
        for _ in 0..<20_000 {
            var bytes = corpus.randomElement(using: &random) ?? []
            for _ in 0..<Int.random(in: 0...4, using: &random) { mutate(&bytes, &random) }
            try bytes.withUnsafeBytes { metadata in
                for form in [MetadataForm.composite, .routing, .plain] {
                    var out = ByteBuffer()
                    do {
                        let count = try CompositeMetadata.carriedCount(metadata, form: form)
                        try CompositeMetadata.appendCarried(metadata, form: form, into: &out)
                        let appended = out.count
                        #expect(appended == count && count <= bytes.count)
                        let request = try RequestMetadata.parse(metadata, form: form)
                        #expect(!request.route.isEmpty)
                    } catch let error as RSocketError {
                        #expect(error.code == .invalid)
                    }
                }
            }
        }
    }

    /// A peer whose server reacts to every event by a fixed rule, so it does the same however the bytes arrive.
    private func peer(_ seed: UInt64) -> Peer {
        let peer = Peer(limits: Self.limits)
        var random = SplitMix(seed)
        peer.onEvent = { connection, line in
            let words = line.split(separator: " ")
            guard words.count > 1, let stream = UInt32(words[1]) else { return }
            // Items may arrive as a run, and the server cannot act between the items of a run.
            guard words[0] != "payload" || words.contains("complete") else { return }
            switch Int.random(in: 0..<12, using: &random) {
            case 0: connection.responderDone(stream: stream)
            case 1: connection.closeStream(stream)
            case 2: connection.cancelRequester(stream: stream)
            case 3, 4: connection.setHandle(stream &* 3, stream: stream)
            case 5: connection.responderDone(stream: stream ^ 2)
            default: break
            }
        }
        return peer
    }

    /// Frames of several conversations after a SETUP, shuffled and damaged.
    private func mutated(_ corpus: [[[UInt8]]], _ random: inout SplitMix) -> [UInt8] {
        var frames = [encoded { FrameWriter.setup(into: &$0) }]
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            frames += (corpus.randomElement(using: &random) ?? []).dropFirst()
        }
        if Bool.random(using: &random) { frames = [frames[0]] + frames.dropFirst().shuffled(using: &random) }
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            let index = Int.random(in: 0..<frames.count, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0: frames.insert(frames[index], at: Int.random(in: index...frames.count, using: &random))
            case 1 where frames[index].count > 3: damageBehindLength(&frames[index], &random)
            default: mutate(&frames[index], &random)
            }
        }
        return frames.flatMap { $0 }
    }

    /// Damages a frame and leaves the framing intact.
    private func damageBehindLength(_ frame: inout [UInt8], _ random: inout SplitMix) {
        var body = Array(frame.dropFirst(3))
        mutate(&body, &random)
        frame = [UInt8(body.count >> 16), UInt8(body.count >> 8 & 0xff), UInt8(body.count & 0xff)] + body
    }

    private func mutate(_ bytes: inout [UInt8], _ random: inout SplitMix) {
        guard !bytes.isEmpty else { return }
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 1: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 2: bytes.removeSubrange(place...)
        case 3: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
        default: bytes[min(place, 9)] = [0, 1, 0x7f, 0x80, 0xff].randomElement(using: &random) ?? 0
        }
    }
}
