// PlainExchange: what an exchange has beside its stream when the client speaks plain HTTP – its request, and what was
// made of it.

import Bytes
import HTTP2
import Replay

final class PlainExchange {
    let request: PlainRequest
    /// What it asks for; nil for a request that was refused.
    var call: PlainCall?
    /// What has come of a message to publish.
    var content = ByteBuffer()

    // Of a stream
    /// The subscription that it is of, once that has begun.
    var subscribed: SubscribeCall?
    /// The last message written, and the topic's epoch.
    var last = EventID(epoch: 0, sequence: 0)
    /// When something was written last, on the monotonic clock.
    var lastSign: UInt64 = 0
    /// How long the record of the message is that was measured last.
    private var measured: (sequence: SequenceNumber, bytes: Int)?

    init(_ request: consuming PlainRequest) { self.request = request }

    /// Bytes of the record of a message, which is measured once: a window that opens byte by byte costs no more.
    func size(of sequence: SequenceNumber, measured measure: () -> Int) -> Int {
        if let measured, measured.sequence == sequence { return measured.bytes }
        let bytes = measure()
        measured = (sequence, bytes)
        return bytes
    }
}
