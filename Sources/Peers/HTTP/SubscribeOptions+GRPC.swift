// Subscription options as encoded in gRPC.

import HTTP2
import Replay

extension SubscribeOptions {
    /// Metadata is always on with gRPC, so a gap can always be reported.
    init(_ open: SubscribeOpen) {
        self.init()
        switch open.start {
        case .next: break
        case .last(let count): start = .last(UInt64(count))
        case .all: start = .all
        case .from(let sequence, let epoch):
            start = .from(SequenceNumber(sequence))
            self.epoch = epoch
        case .since(let time): since = time
        }
        if let buffer = open.buffer { self.buffer = Int(buffer) }
        overflow = open.overflow
        gapFails = open.gapFails
        meta = true
        opening = open.opening
    }
}
