// The lines of operators with several upstreams or several subscribers, and of those that keep values.

import Streams

extension Line {
    static let combining = sharing + merging + joining

    private static let sharing: [Line] = [
        Line("shareReplay", "1 2 2 3 4 |", reach: .everything, [.shared]) { $0.shareReplay(capacity: 5) },
        Line("shareReplay that blocks", "1 2 2 3 4 |", reach: .demand(plus: 5), [.shared]) {
            $0.shareReplay(capacity: 5, overflow: .block)
        },
        Line("multicast", "1 2 2 3 4 |", reach: .everything, [.shared]) {
            $0.multicast(subject: BufferSubject(limit: 5)).autoconnect()
        },
        Line("multicast through a PassthroughSubject", "1 2 2 3 4 |", reach: .everything, [.shared, .lossy]) {
            $0.multicast { PassthroughSubject() }.autoconnect()
        },
        Line("share", "1 2 2 3 4 |", reach: .everything, [.shared, .lossy]) { $0.share() },
        Line("makeConnectable", "1 2 2 3 4 |", failed: "1 2 2 3 4 0 |", reach: .everything, [.shared, .lossy]) {
            $0.replaceError(with: 0).makeConnectable().autoconnect()
        },
        Line("buffer that is kept full", "1 2 2 3 4 |", reach: .demand(plus: 2)) {
            $0.buffer(size: 2, prefetch: .keepFull, whenFull: .dropNewest)
        },
        Line("buffer of all", "1 2 2 3 4 |", reach: .everything) {
            $0.buffer(size: 5, prefetch: .byRequest, whenFull: .dropOldest)
        },
    ]

    private static let merging: [Line] = [
        Line("merge", "1 2 2 3 4 |", reach: .demand(plus: 1)) { $0.merge(with: sequence([])) },
        Line("merge of many", "1 2 2 3 4 |", reach: .demand(plus: 1)) { Publishers.MergeMany([$0]) },
        Line("merge of three", "1 2 2 3 4 |", reach: .demand(plus: 1)) { $0.merge(with: sequence([]), sequence([])) },
        Line("merge of four", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            $0.merge(with: sequence([]), sequence([]), sequence([]))
        },
        Line("merge of five", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            $0.merge(with: sequence([]), sequence([]), sequence([]), sequence([]))
        },
        Line("merge of six", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            $0.merge(with: sequence([]), sequence([]), sequence([]), sequence([]), sequence([]))
        },
        Line("merge of seven", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            $0.merge(with: sequence([]), sequence([]), sequence([]), sequence([]), sequence([]), sequence([]))
        },
        Line("merge of eight", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            $0.merge(
                with: sequence([]), sequence([]), sequence([]), sequence([]), sequence([]), sequence([]), sequence([]))
        },
        Line("flatMap", "1 2 2 3 4 |", failed: "X", reach: .everything) { $0.flatMap { sequence([$0]) } },
        Line("flatMap of one at a time", "1 1 2 2 2 2 3 3 4 4 |", reach: .demand(plus: 1)) {
            $0.flatMap(maxPublishers: .max(1)) { sequence([$0, $0]) }
        },
        Line("switchToLatest", "1 2 2 3 4 |") { sequence([$0]).switchToLatest() },
    ]

    private static let joining: [Line] = [
        Line("zip", "1 3 4 6 8 |", failed: "X") { $0.zip(sequence(0..<9)) { $0 + $1 } },
        Line("zip of three", "1 4 6 9 12 |", failed: "X") {
            $0.zip(sequence(0..<9), sequence(0..<9)) { $0 + $1 + $2 }
        },
        Line("zip of four", "1 5 8 12 16 |", failed: "X") {
            $0.zip(sequence(0..<9), sequence(0..<9), sequence(0..<9)) { $0 + $1 + $2 + $3 }
        },
        Line("combineLatest", "11 12 12 13 14 |", reach: .demand(plus: 1)) {
            sequence([10]).combineLatest($0) { $0 + $1 }
        },
        Line("combineLatest of three", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            sequence([0]).combineLatest(sequence([0]), $0) { $0 + $1 + $2 }
        },
        Line("combineLatest of four", "1 2 2 3 4 |", reach: .demand(plus: 1)) {
            sequence([0]).combineLatest(sequence([0]), sequence([0]), $0) { $0 + $1 + $2 + $3 }
        },
    ]
}

private func sequence<S: Sequence>(_ elements: S) -> some Publisher<S.Element, TestError> {
    elements.publisher.setFailureType(to: TestError.self)
}
