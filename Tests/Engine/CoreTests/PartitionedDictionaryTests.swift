// PartitionedDictionary, compared with Swift's own.

import Testing

@testable import Core

struct PartitionedDictionaryTests {
    @Test func itIsADictionary() {
        var random = SystemRandomNumberGenerator()
        var model: [UInt64: Int] = [:]
        var tested = PartitionedDictionary<UInt64, Int>()
        for step in 0..<20_000 {
            let key = UInt64.random(in: 0..<2_000, using: &random)
            switch step % 5 {
            case 0: #expect(tested.removeValue(forKey: key) == model.removeValue(forKey: key))
            case 1:
                tested[key] = nil
                model[key] = nil
            default:
                tested[key] = step
                model[key] = step
            }
            #expect(tested[key] == model[key])
            #expect(tested.count == model.count && tested.isEmpty == model.isEmpty)
        }
        #expect(tested.values.sorted() == model.values.sorted())
        for key in UInt64(0)..<2_000 { #expect(tested[key] == model[key]) }
    }
}
