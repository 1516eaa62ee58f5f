// The stream table, compared with a dictionary.

import Testing

@testable import RSocket

@Suite struct StreamTableTests {
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func agreesWithADictionary(seed: UInt64) {
        var random = SplitMix(seed)
        var table = StreamTable()
        var model: [UInt32: UInt32] = [:]
        for step in 0..<4000 {
            // Grows for a while, then shrinks.
            let id = UInt32.random(in: 0..<400, using: &random)
            let grows = step % 2000 < 1200
            if let index = table.find(id) {
                #expect(model[id] == table[index].handle)
                if Int.random(in: 0..<10, using: &random) < (grows ? 2 : 8) {
                    table.remove(at: index)
                    model[id] = nil
                } else {
                    table[index].handle = UInt32(step)
                    model[id] = UInt32(step)
                }
            } else {
                #expect(model[id] == nil)
                if grows {
                    var entry = StreamEntry(id: id, kind: .stream, requesterDone: true, announced: true)
                    entry.handle = UInt32(step)
                    table.insert(entry)
                    model[id] = UInt32(step)
                }
            }
            #expect(table.count == model.count)
        }
        #expect(table.entries.filter { !$0.isGone }.map(\.id) == model.keys.sorted())
    }

    @Test func whoLeavesMovesNobody() throws {
        var table = StreamTable()
        for id in 0..<1000 as Range<UInt32> {
            table.insert(StreamEntry(id: id, kind: .stream, requesterDone: true, announced: true))
        }
        for id in 0..<500 as Range<UInt32> { table.remove(at: try #require(table.find(id))) }
        #expect(table.count == 500 && table.find(499) == nil)
        #expect(table.find(500) == 500)
        // An id that is used again takes its former slot.
        table.insert(StreamEntry(id: 7, kind: .stream, requesterDone: true, announced: true))
        #expect(table.find(7) == 7 && table.count == 501 && table.entries.count == 1000)
        for id in 500..<600 as Range<UInt32> { table.remove(at: try #require(table.find(id))) }
        #expect(table.count == 401 && table.entries.count < 900)
    }

    @Test(arguments: [false, true]) func aBurstOfStreamsDoesNotHoldMemoryForEver(lastFirst: Bool) {
        var table = StreamTable()
        for id in 0..<10_000 as Range<UInt32> {
            table.insert(StreamEntry(id: id, kind: .response, requesterDone: true, announced: true))
        }
        for number in 1..<10_000 as Range<UInt32> {
            let id = lastFirst ? 10_000 - number : number
            if let index = table.find(id) { table.remove(at: index) }
        }
        #expect(table.count == 1)
        #expect(table.entries.capacity <= 64)
        #expect(MemoryLayout<StreamEntry>.stride <= 16)
    }
}
