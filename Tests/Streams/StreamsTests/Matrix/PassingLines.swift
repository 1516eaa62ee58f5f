// The lines of operators that pass on, change, select or reduce the values of one upstream, or of several consecutive
// ones.

import Streams

extension Line {
    static let passing = mapping + selecting + summing + following

    private static let mapping: [Line] = [
        Line("map", "2 4 4 6 8 |", [.transparent]) { $0.map { $0 * 2 } },
        Line("map by a key path", "-1 -2 -2 -3 -4 |", [.transparent]) { $0.map(\.negated) },
        Line("map by two key paths", "(-1,1) (-2,2) (-2,2) (-3,3) (-4,4) |", [.transparent]) {
            $0.map(\.negated, \.magnitude)
        },
        Line("map by three key paths", "(-1,1,1) (-2,2,2) (-2,2,2) (-3,3,3) (-4,4,4) |", [.transparent]) {
            $0.map(\.negated, \.magnitude, \.magnitude)
        },
        Line("tryMap", "2 4 4 6 8 |") { $0.tryMap { $0 * 2 } },
        Line("tryMap that throws", "1 2 2 X") { $0.tryMap { try $0.not(3) } },
        Line("replaceNil", "1 0 0 3 4 |", [.transparent]) { $0.map { $0 == 2 ? nil : $0 }.replaceNil(with: 0) },
        Line("scan", "11 13 15 18 22 |", [.transparent]) { $0.scan(10, +) },
        Line("tryScan", "11 13 15 18 22 |") { $0.tryScan(10, +) },
        Line("tryScan that throws", "11 13 X") { $0.tryScan(10) { try $0.not(13) + $1 } },
        Line("encode", "<1> <2> <2> <3> <4> |") { $0.encode(encoder: Brackets()) },
        Line("encode and decode", "1 2 2 3 4 |") {
            $0.encode(encoder: Brackets()).decode(type: Int.self, decoder: Brackets())
        },
        Line("mapError", "1 2 2 3 4 |", [.transparent]) { $0.mapError { $0 as any Error } },
        Line("setFailureType", "1 2 2 3 4 |", failed: "1 2 2 3 4 0 |") {
            $0.replaceError(with: 0).setFailureType(to: TestError.self)
        },
        Line("replaceError", "1 2 2 3 4 |", failed: "1 2 2 3 4 0 |") { $0.replaceError(with: 0) },
        Line("assertNoFailure", "1 2 2 3 4 |", failed: "1 2 2 3 4 0 |") {
            $0.replaceError(with: 0).setFailureType(to: TestError.self).assertNoFailure()
        },
        Line("an operator of one's own", "1 2 4 |") { Publishers.Custom($0, name: "EveryOther") { EveryOther() } },
        Line("handleEvents", "1 2 2 3 4 |") { $0.handleEvents() },
        Line("print", "1 2 2 3 4 |") { $0.print("", to: "") },
        Line("debug", "1 2 2 3 4 |") { $0.debug(to: "") },
        Line("breakpoint", "1 2 2 3 4 |", [.transparent]) { $0.breakpoint(receiveOutput: { $0 > 9 }) },
    ]

    private static let selecting: [Line] = [
        Line("filter", "2 2 4 |", [.transparent]) { $0.filter { $0 % 2 == 0 } },
        Line("tryFilter", "2 2 4 |") { $0.tryFilter { $0 % 2 == 0 } },
        Line("tryFilter that throws", "2 2 X") { $0.tryFilter { try $0.not(3) % 2 == 0 } },
        Line("compactMap", "-2 -2 -4 |", [.transparent]) { $0.compactMap { $0 % 2 == 0 ? -$0 : nil } },
        Line("tryCompactMap", "-2 -2 -4 |") { $0.tryCompactMap { $0 % 2 == 0 ? -$0 : nil } },
        Line("tryCompactMap that throws", "X") { $0.tryCompactMap { try $0.not(1) } },
        Line("unwrap", "1 3 4 |", [.transparent]) { $0.map { $0 == 2 ? nil : $0 }.unwrap() },
        Line("removeDuplicates", "1 2 3 4 |") { $0.removeDuplicates() },
        Line("removeDuplicates by", "1 3 |") { $0.removeDuplicates { $1 - $0 < 2 } },
        Line("tryRemoveDuplicates that throws", "1 2 3 X") { $0.tryRemoveDuplicates { try $0.not(3) == $1 } },
        Line("prefix", "1 2 |", failed: "1 2 |") { $0.prefix(2) },
        Line("prefix of none", "|", failed: "|") { $0.prefix(0) },
        Line("prefix of more than there is", "1 2 2 3 4 |") { $0.prefix(9) },
        Line("output at", "3 |", failed: "3 |") { $0.output(at: 3) },
        Line("output in", "2 2 |", failed: "2 2 |") { $0.output(in: 1...2) },
        Line("prefix while", "1 2 2 |", failed: "1 2 2 |") { $0.prefix { $0 < 3 } },
        Line("tryPrefix while that throws", "1 2 2 X") { $0.tryPrefix { try $0.not(3) < 4 } },
        Line("drop while", "3 4 |") { $0.drop { $0 < 3 } },
        Line("tryDrop while that throws", "X") { $0.tryDrop { try $0.not(2) < 3 } },
        Line("dropFirst", "2 3 4 |", reach: .demand(plus: 2)) { $0.dropFirst(2) },
        Line("prefix until output from", "1 2 2 3 4 |") {
            $0.prefix(untilOutputFrom: PassthroughSubject<String, Never>())
        },
        Line("prefix until output that has come", "|", failed: "|") { $0.prefix(untilOutputFrom: ["now"].publisher) },
        Line("drop until output that has come", "1 2 2 3 4 |") { upstream in
            upstream.drop(untilOutputFrom: ManualSource([0]))
        },
        Line("drop until output from", "|") { $0.drop(untilOutputFrom: PassthroughSubject<Void, TestError>()) },
    ]

    private static let summing: [Line] = [
        Line("reduce", "22 |", failed: "X", empty: "10 |", reach: .everything) { $0.reduce(10, +) },
        Line("tryReduce that throws", "X", empty: "10 |", reach: .everything) {
            $0.tryReduce(10) { try $0.not(13) + $1 }
        },
        Line("count", "5 |", failed: "X", empty: "0 |", reach: .everything) { $0.count() },
        Line("collect", "[1,2,2,3,4] |", failed: "X", empty: "[] |", reach: .everything) { $0.collect() },
        Line("collect by count", "[1,2] [2,3] [4] |", failed: "[1,2] [2,3] X", reach: .demand(times: 2)) {
            $0.collect(2)
        },
        Line("ignoreOutput", "|", reach: .everything, [.transparent]) { $0.ignoreOutput() },
        Line("min", "1 |", failed: "X", reach: .everything) { $0.min() },
        Line("max", "4 |", failed: "X", reach: .everything) { $0.max() },
        Line("tryMax that throws", "X", reach: .everything) { $0.tryMax { try $0.not(3) < $1 } },
        Line("contains", "true |", failed: "true |", empty: "false |", reach: .everything) { $0.contains(3) },
        Line("contains that does not", "false |", failed: "X", empty: "false |", reach: .everything) { $0.contains(7) },
        Line("tryContains that throws", "X", empty: "false |", reach: .everything) {
            $0.tryContains { try $0.not(3) == 4 }
        },
        Line("contains where", "true |", failed: "true |", empty: "false |", reach: .everything) {
            $0.contains { $0 > 2 }
        },
        Line("tryAllSatisfy that throws", "X", empty: "true |", reach: .everything) {
            $0.tryAllSatisfy { try $0.not(3) < 9 }
        },
        Line("allSatisfy", "true |", failed: "X", empty: "true |", reach: .everything) { $0.allSatisfy { $0 < 9 } },
        Line("allSatisfy that does not", "false |", failed: "false |", empty: "true |", reach: .everything) {
            $0.allSatisfy { $0 < 3 }
        },
        Line("first", "1 |", failed: "1 |", reach: .everything) { $0.first() },
        Line("first where", "3 |", failed: "3 |", reach: .everything) { $0.first { $0 > 2 } },
        Line("tryFirst that throws", "X", reach: .everything) { $0.tryFirst { try $0.not(3) > 3 } },
        Line("last", "4 |", failed: "X", reach: .everything) { $0.last() },
        Line("last where", "2 |", failed: "X", reach: .everything) { $0.last { $0 < 3 } },
        Line("tryLast that throws", "X", reach: .everything) { $0.tryLast { try $0.not(3) < 3 } },
        Line("replaceEmpty", "1 2 2 3 4 |", empty: "0 |") { $0.replaceEmpty(with: 0) },
    ]

    private static let following: [Line] = [
        Line("append", "1 2 2 3 4 8 9 |", failed: "1 2 2 3 4 X", empty: "8 9 |") { $0.append(8, 9) },
        Line("prepend", "8 9 1 2 2 3 4 |", empty: "8 9 |", [.late]) { $0.prepend([8, 9]) },
        Line("catch", "1 2 2 3 4 |", failed: "1 2 2 3 4 8 9 |") { $0.catch { _ in [8, 9].publisher } },
        Line("tryCatch", "1 2 2 3 4 |", failed: "1 2 2 3 4 8 9 |") { $0.tryCatch { _ in [8, 9].publisher } },
        Line("tryCatch that throws", "1 2 2 3 4 |") { upstream in
            upstream.tryCatch { failure -> Empty<Int, Never> in throw failure }
        },
        Line("retry", "1 2 2 3 4 |", failed: "1 2 2 3 4 1 2 2 3 4 X") { $0.retry(1) },
        Line("retry that does not", "1 2 2 3 4 |") { $0.retry(0) },
    ]
}

extension Int {
    fileprivate var negated: Int { -self }

    /// Throws if this number equals `value`.
    fileprivate func not(_ value: Int) throws -> Int { if self == value { throw TestError() } else { self } }
}

/// Lets every other value pass, starting with the first.
private struct EveryOther: OperatorBehavior {
    private var passes = false

    mutating func receive(_ input: Int, _ outlet: Outlet<Int, TestError>) {
        passes.toggle()
        if passes { outlet.send(input) } else { outlet.requestUpstream(.max(1)) }
    }
}

/// Encodes a number as a string in brackets.
private struct Brackets: TopLevelEncoder, TopLevelDecoder {
    func encode<T: Encodable>(_ value: T) throws -> String { "<\(value)>" }

    func decode<T: Decodable>(_ type: T.Type, from text: String) throws -> T {
        guard let value = Int(text.dropFirst().dropLast()) as? T else { throw TestError() }
        return value
    }
}
