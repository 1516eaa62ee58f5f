// GRPCDeframer: the same messages however they are split, and each way in which a call can break.

import Bytes
import Testing

@testable import HTTP2

@Suite struct GRPCDeframerTests {
    /// Messages of many lengths, including the empty one, and their encoding.
    private static let messages: [[UInt8]] = [0, 1, 4, 5, 6, 300, 0, 0, 1000, 17].enumerated().map { index, count in
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ index) }
    }
    private static let stream: [UInt8] = messages.flatMap { message in
        written { out in GRPCFraming.append(to: &out) { $0.append(message) } }
    }

    /// The output when `stream` arrives in the chunks given by `cuts`, and the maximum held.
    private func run(_ stream: [UInt8], cuts: [Int], limit: Int = 1000) throws(GRPCError) -> ([[UInt8]], held: Int) {
        var deframer = GRPCDeframer(limit: limit)
        var taken: [[UInt8]] = []
        var held = 0
        var start = 0
        for end in cuts + [stream.count] {
            // Separate memory, in which reads beyond its end or after its lifetime are noticed.
            let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: end - start, alignment: 1)
            chunk.copyBytes(from: stream[start..<end])
            defer {
                for index in chunk.indices { chunk[index] = 0xee }
                chunk.deallocate()
            }
            var rest = UnsafeRawBufferPointer(chunk)
            while let message = try deframer.next(&rest) { taken.append(Array(message)) }
            #expect(rest.isEmpty)
            held = max(held, deframer.heldBytes)
            start = end
        }
        try deframer.finish()
        return (taken, held)
    }

    @Test func messagesThatLieInOneChunkAreReadWhereTheyLie() throws {
        var deframer = GRPCDeframer(limit: 1000)
        try Self.stream.withUnsafeBytes { chunk in
            var rest = chunk
            var offset = 0
            for message in Self.messages {
                let taken = try #require(try deframer.next(&rest))
                #expect(Array(taken) == message)
                #expect(message.isEmpty || taken.baseAddress == chunk.baseAddress! + offset + 5)
                offset += 5 + message.count
            }
            #expect(try deframer.next(&rest) == nil)
            #expect(deframer.heldBytes == 0)
        }
        try deframer.finish()
    }

    @Test func everyCutGivesTheSame() throws {
        for cut in 0...Self.stream.count {
            let (taken, held) = try run(Self.stream, cuts: [cut])
            #expect(taken == Self.messages, "cut at \(cut)")
            #expect(held <= 1005)
        }
        #expect(try run(Self.stream, cuts: Array(0..<Self.stream.count)).0 == Self.messages)
    }

    @Test(arguments: 0..<20)
    func manyCutsGiveTheSame(round: Int) throws {
        var random = Repeatable(seed: UInt64(round))
        let most = Int.random(in: 1...200, using: &random)
        var cuts: [Int] = []
        var place = 0
        while true {
            place += Int.random(in: 0...most, using: &random)
            guard place < Self.stream.count else { break }
            cuts.append(place)
        }
        let (taken, held) = try run(Self.stream, cuts: cuts)
        #expect(taken == Self.messages)
        #expect(held <= 1005)
    }

    @Test func aMessageThatIsCutShortIsInternal() {
        let whole = written { out in GRPCFraming.append(to: &out) { $0.append([1, 2, 3]) } }
        for count in 1..<whole.count {
            let error = refusal { () throws(GRPCError) in _ = try run(Array(whole[..<count]), cuts: []) }
            #expect(error?.status == .internal, "\(count)")
        }
        #expect(refusal { () throws(GRPCError) in _ = try run(whole, cuts: []) } == nil)
        #expect(refusal { () throws(GRPCError) in _ = try run([], cuts: []) } == nil)
    }

    @Test(arguments: [
        ("00 00000065", GRPCStatus.resourceExhausted), ("00 ffffffff", .resourceExhausted),
        ("00 80000000", .resourceExhausted),
        ("01 00000001", .unimplemented), ("01", .unimplemented), ("02", .internal), ("ff 00000000", .internal),
    ])
    func whatCannotBeTakenEndsTheCallAtOnce(text: String, status: GRPCStatus) throws {
        let bytes = hex(text)
        for cut in 0...bytes.count {
            let error = refusal { () throws(GRPCError) in _ = try run(bytes, cuts: [cut], limit: 100) }
            #expect(error?.status == status, "cut at \(cut)")
        }
        // Nothing is accepted after the error.
        var deframer = GRPCDeframer(limit: 100)
        let all = bytes + hex("00 00000001 61")
        try all.withUnsafeBytes { chunk in
            var rest = chunk
            #expect(refusal { () throws(GRPCError) in _ = try deframer.next(&rest) }?.status == status)
            rest = chunk
            #expect(try deframer.next(&rest) == nil)
            #expect(rest.isEmpty && deframer.heldBytes <= 5)
            try deframer.finish()
        }
    }

    @Test func aMessageOfTheLimitIsTaken() throws {
        let bytes = written { out in GRPCFraming.append(to: &out) { $0.append([UInt8](repeating: 7, count: 100)) } }
        #expect(try run(bytes, cuts: [], limit: 100).0.map(\.count) == [100])
        #expect(
            refusal { () throws(GRPCError) in _ = try run(bytes, cuts: [], limit: 99) }?.status == .resourceExhausted)
    }

    @Test func whateverBytesComeLittleIsHeld() {
        var random = Repeatable(seed: 3)
        var statuses: Set<GRPCStatus> = []
        for _ in 0..<5000 {
            let bytes = random.mutate(Self.stream)
            let error = refusal { () throws(GRPCError) in
                let cuts = (0..<5).map { _ in Int.random(in: 0...bytes.count, using: &random) }.sorted()
                #expect(try run(bytes, cuts: cuts).held <= 1005)
            }
            if let error { statuses.insert(error.status) }
        }
        #expect(statuses == [.resourceExhausted, .unimplemented, .internal])
    }
}
