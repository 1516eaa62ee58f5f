// The lines of operators with a scheduler. Those that wait run in virtual time: `stage.settle` lets it pass.

import Streams

extension Line {
    static let timing: [Line] = []
}
