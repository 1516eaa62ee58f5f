// Row 2: Demand.

import Foundation
import Streams
import Testing

private typealias Demand = Subscribers.Demand

@Suite("row 2: .none, .max(n), .unlimited; comparisons, arithmetic and traps")
struct DemandTests {
    @Test("figures")
    func figures() {
        #expect(Demand.none == .max(0) && Demand.none.max == 0 && Demand.max(42).max == 42)
        #expect(Demand.unlimited.max == nil && Demand.unlimited != .max(.max))
        #expect([Demand.none, .max(3), .unlimited].map(\.description) == ["max(0)", "max(3)", "unlimited"])
        #expect(Set([Demand.none, .max(0), .max(1), .unlimited, .unlimited]).count == 3)
    }

    @Test("addition: no limit stays no limit, and a sum too large to be distinguished from it becomes it")
    func addition() {
        #expect(Demand.max(100) + .max(42) == .max(142))
        #expect(Demand.max(42) + .unlimited == .unlimited && Demand.unlimited + .max(42) == .unlimited)
        #expect(Demand.unlimited + .unlimited == .unlimited)
        #expect(Demand.max(.max) + .max(1) == .unlimited && Demand.max(.max) + .max(.max) == .unlimited)
        #expect(Demand.max(.max - 1) + .max(1) == .max(.max))
        #expect(Demand.max(81) + 42 == .max(123) && Demand.max(81) + -81 == .none)
        #expect(Demand.unlimited + .min == .unlimited && Demand.max(.max) + 10 == .unlimited)
        var demand = Demand.none
        demand += .max(1)
        demand += 21
        #expect(demand == .max(22))
        demand += .unlimited
        demand += Int.min
        #expect(demand == .unlimited)
    }

    @Test("subtraction: subtracting from no limit changes nothing, and differences stop at none")
    func subtraction() {
        #expect(Demand.max(100) - .max(42) == .max(58))
        #expect(Demand.max(42) - .unlimited == .none)
        #expect(Demand.unlimited - .unlimited == .unlimited && Demand.unlimited - .max(42) == .unlimited)
        #expect(Demand.max(1) - .max(2) == .none && Demand.max(1) - 2 == .none && Demand.none - .min == .none)
        #expect(Demand.max(81) - 42 == .max(39) && Demand.max(5) - -3 == .max(8))
        #expect(Demand.unlimited - 42 == .unlimited && Demand.unlimited - .max == .unlimited)
        #expect(Demand.max(.max) - -1 == .none)
        var demand = Demand.max(100)
        demand -= .max(1)
        demand -= 21
        #expect(demand == .max(78))
        demand -= .unlimited
        #expect(demand == .none)
    }

    @Test("multiplication")
    func multiplication() {
        #expect(Demand.max(42) * 2 == .max(84) && Demand.none * .max == .none && Demand.max(7) * 0 == .none)
        #expect(Demand.unlimited * 0 == .unlimited && Demand.unlimited * -1 == .unlimited)
        #expect(Demand.max(.max) * 2 == .unlimited)
        var demand = Demand.max(20)
        demand *= 2
        #expect(demand == .max(40))
    }

    @Test("comparison, of demands and with numbers, in either order: no limit is above all")
    func comparison() {
        let figures: [Int?] = [0, 1, 42, 100, .max, nil]
        for (i, left) in figures.enumerated() {
            let demand = left.map { Demand.max($0) } ?? .unlimited
            for (j, right) in figures.enumerated() {
                let other = right.map { Demand.max($0) } ?? .unlimited
                #expect((demand < other) == (i < j) && (demand <= other) == (i <= j))
                #expect((demand > other) == (i > j) && (demand >= other) == (i >= j))
                #expect((demand == other) == (i == j) && (demand != other) == (i != j))
                guard let right else { continue }
                #expect((demand < right) == (i < j) && (demand <= right) == (i <= j))
                #expect((demand > right) == (i > j) && (demand >= right) == (i >= j))
                #expect((demand == right) == (i == j) && (demand != right) == (i != j))
                #expect((right < demand) == (j < i) && (right <= demand) == (j <= i))
                #expect((right > demand) == (j > i) && (right >= demand) == (j >= i))
                #expect((right == demand) == (i == j) && (right != demand) == (i != j))
            }
            #expect(demand > -1 && -1 < demand && demand != -1)
        }
    }

    @Test("as JSON it is its figure; no limit is one more than the largest")
    func coding() throws {
        let demands: [Demand] = [.none, .max(42), .unlimited]
        let encoded = try JSONEncoder().encode(demands)
        #expect(String(decoding: encoded, as: UTF8.self) == "[0,42,\(UInt(Int.max) + 1)]")
        #expect(try JSONDecoder().decode([Demand].self, from: encoded) == demands)
        let tooLarge = Data("[\(UInt(Int.max) + 2)]".utf8)
        #expect(try JSONDecoder().decode([Demand].self, from: tooLarge) == [.unlimited])
        #expect(throws: (any Error).self) { try JSONDecoder().decode([Demand].self, from: Data("[-1]".utf8)) }
    }

    @Test("a negative demand traps")
    func negative() async {
        await #expect(processExitsWith: .failure) { _ = Subscribers.Demand.max(-1) }
    }

    @Test("a sum below none traps")
    func negativeSum() async {
        await #expect(processExitsWith: .failure) { _ = Subscribers.Demand.max(1) + -2 }
    }

    @Test("a negative product traps")
    func negativeProduct() async {
        await #expect(processExitsWith: .failure) { _ = Subscribers.Demand.max(1) * -2 }
    }
}
