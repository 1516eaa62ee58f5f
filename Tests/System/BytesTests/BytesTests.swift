// ByteBuffer, compared with the simplest model of a queue of bytes: an array.

import Testing

@testable import Bytes

@Suite struct ByteBufferTests {
    @Test(arguments: 0..<50)
    func equalsAnArray(_ seed: Int) {
        var state = UInt64(seed)
        func random(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        var buffer = ByteBuffer(minimumCapacity: random(100))
        var model: [UInt8] = []
        for step in 0..<500 {
            switch random(8) {
            case 0:
                let bytes = (0..<random(200)).map { UInt8(truncatingIfNeeded: $0 + step) }
                buffer.append(bytes)
                model += bytes
            case 1:
                buffer.append(bigEndian: UInt32(step))
                model += [0, 0, UInt8(step >> 8), UInt8(step & 0xFF)]
            case 2:
                buffer.append(u24: step)
                model += [0, UInt8(step >> 8), UInt8(step & 0xFF)]
            case 3:
                let count = random(buffer.count + 1)
                buffer.consume(count)
                model.removeFirst(count)
            case 4:
                let count = random(buffer.count + 1)
                buffer.truncate(by: count)
                model.removeLast(count)
            case 5:
                buffer.reserve(3).copyMemory(from: [9, 8, 7] as [UInt8], byteCount: 3)
                buffer.commit(3)
                model += [9, 8, 7]
            case 6 where random(10) == 0:
                buffer.removeAll()
                model.removeAll()
                buffer.shrink()
                #expect(buffer.capacity == 0)
            default:
                buffer.append("héllo")
                model += "héllo".utf8
            }
            #expect(Array(buffer.readable) == model)
            #expect(buffer.count == model.count && buffer.isEmpty == model.isEmpty)
            #expect(buffer.capacity >= buffer.count)
        }
    }

    @Test func nothingCanBeReserved() {
        var buffer = ByteBuffer()
        _ = buffer.reserve(0)
        buffer.commit(0)
        #expect(buffer.count == 0)
    }

    @Test func steadyUseDoesNotGrow() {
        var buffer = ByteBuffer()
        for _ in 0..<10_000 {
            buffer.append([UInt8](repeating: 1, count: 100))
            if buffer.count > 1000 { buffer.consume(900) }
        }
        #expect(buffer.capacity <= 4096)
    }

    @Test func numbersAreReadInNetworkOrder() {
        let bytes: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        bytes.withUnsafeBytes {
            #expect($0.bigEndian(at: 1, as: UInt16.self) == 0x0203)
            #expect($0.bigEndian(at: 1, as: UInt64.self) == 0x0203_0405_0607_0809)
            #expect($0.u24(at: 6) == 0x07_0809)
            #expect($0.slice(2..<4).elementsEqual([3, 4]))
        }
    }
}
