// The lines of operators with one upstream that pass on, change, select or sum up what comes.

import Streams

extension Line {
    static let passing: [Line] = [
        Line("map", "2 4 4 6 8 |", [.transparent]) { $0.map { $0 * 2 } },
        Line("scan", "11 13 15 18 22 |") { $0.scan(10, +) },
        Line("tryScan", "11 13 15 18 22 |") { $0.tryScan(10, +) },
        Line("tryScan that throws", "11 13 X") { upstream in
            upstream.tryScan(10) { if $0 == 13 { throw TestError() } else { $0 + $1 } }
        },
        Line("handleEvents", "1 2 2 3 4 |") { $0.handleEvents() },
    ]
}
