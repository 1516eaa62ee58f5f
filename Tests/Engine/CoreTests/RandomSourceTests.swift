// The random numbers for epochs and stream ids.

import Testing

@testable import Core

@Suite struct RandomSourceTests {
    /// From SipHash's official test vectors: key 00 01 … 0f, input 00 01 … 07.
    @Test func `It is SipHash-2-4`() {
        let key: (UInt64, UInt64) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)
        #expect(RandomSource.hash(0x0706_0504_0302_0100, key) == 0x93F5_F579_9A93_2462)
    }

    @Test func `Numbers do not repeat, and seeds differ`() {
        var seen: Set<UInt64> = []
        for seed in UInt64(0)..<8 {
            var source = RandomSource(seed: seed)
            for _ in 0..<1000 { seen.insert(source.next()) }
        }
        #expect(seen.count == 8000)
    }
}
