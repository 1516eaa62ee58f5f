// Lines of the stress tests for operators with one upstream, or with several consecutive ones.

import Streams

extension StressLine {
    static let passing: [StressLine] = [
        StressLine("compactMap, dropFirst, prefix") { $0.compactMap { $0 }.dropFirst(0).prefix(.max) },
        StressLine("tryFilter, replaceError") {
            $0.tryFilter { _ in true }.replaceError(with: Mark(sender: 9, number: 0))
        },
        StressLine("retry") { $0.retry(1) },
        StressLine("prefix(untilOutputFrom:)") {
            $0.prefix(untilOutputFrom: Empty<Int, Never>(completeImmediately: false))
        },
        StressLine("drop(untilOutputFrom:)") { $0.drop(untilOutputFrom: Just(1)) },
        StressLine("print") { $0.print("", to: "") },
        StressLine("collect by count", reach: .none) { $0.collect(3).map { (group: [Mark]) -> Mark in group[0] } },
        StressLine("last", reach: .none) { $0.last() },
    ]
}
