// The lines of operators with several upstreams or several subscribers, and of those that keep values.

import Streams

extension Line {
    static let combining: [Line] = [
        Line("shareReplay", "1 2 2 3 4 |", reach: .everything, [.shared]) { $0.shareReplay(capacity: 5) },
        Line("shareReplay that blocks", "1 2 2 3 4 |", reach: .demand(plus: 5), [.shared]) {
            $0.shareReplay(capacity: 5, overflow: .block)
        },
    ]
}
