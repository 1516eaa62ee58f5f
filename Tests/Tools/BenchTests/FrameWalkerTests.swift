// FrameWalkerTests: stamps are found however the stream is split, and with NATS's PING between messages.

import Testing

@testable import Bench

struct FrameWalkerTests {
    private static func stream(_ frame: MessageFrame, _ stamps: [UInt64], pingBefore: Set<Int> = []) -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, stamp) in stamps.enumerated() {
            if pingBefore.contains(index) { bytes += Array("PING\r\n".utf8) }
            bytes += frame.head
            bytes += (0..<8).map { UInt8(truncatingIfNeeded: stamp >> (56 - 8 * UInt64($0))) }
            bytes += [UInt8](repeating: UInt8(ascii: "P"), count: frame.payload - 8) + frame.tail
        }
        return bytes
    }

    private static func found(
        _ bytes: [UInt8], _ frame: MessageFrame, noise: Noise?, cut: Int
    ) -> [UInt64] {
        var walker = FrameWalker(frame, noise: noise)
        var stamps: [UInt64] = []
        for start in stride(from: 0, to: bytes.count, by: cut) {
            bytes[start..<min(start + cut, bytes.count)].withUnsafeBytes { part in
                walker.walk(part) { stamp, before in
                    #expect(before == UInt64(stamps.count))
                    stamps.append(stamp)
                }
            }
        }
        return stamps
    }

    @Test(arguments: System.brokers.filter { $0.wire.reader(payload: 16) == nil })
    func everyCutFindsEveryStamp(_ system: System) {
        let wire = system.wire
        let frame = wire.delivered(to: Subscription(), payload: 16)
        let stamps: [UInt64] = [0, 1, .max, 0x0102_0304_0506_0708, 0x5049_4e47_0d0a_5049, 77]
        let bytes = FrameWalkerTests.stream(frame, stamps)
        for cut in 1...bytes.count {
            #expect(FrameWalkerTests.found(bytes, frame, noise: wire.noise, cut: cut) == stamps)
        }
    }

    @Test func pingsBetweenMessagesAreSkipped() {
        let wire = NATSWire()
        let frame = wire.delivered(to: Subscription(), payload: 16)
        let stamps: [UInt64] = [5, 6, 7]
        let bytes = FrameWalkerTests.stream(frame, stamps, pingBefore: [0, 2])
        for cut in 1...bytes.count {
            #expect(FrameWalkerTests.found(bytes, frame, noise: wire.noise, cut: cut) == stamps)
        }
    }
}
