// PlainExchange: what an exchange has beside its stream when the client speaks plain HTTP – its request, and what was
// made of it.

import Bytes
import HTTP2

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

    init(_ request: consuming PlainRequest) { self.request = request }
}
