// PlainExchange: the part of an exchange that only plain HTTP needs: the request and its results.

import Bytes
import HTTP2

final class PlainExchange {
    let request: PlainRequest
    /// The parsed call; nil for a request that was refused.
    var call: PlainCall?
    /// The part of a message to publish that has arrived.
    var content = ByteBuffer()

    // For an event stream
    /// The subscription's options, once it has begun.
    var subscribed: SubscribeCall?
    /// The last message written, and the topic's epoch.
    var last = EventID(epoch: 0, sequence: 0)
    /// When something was last written, on the monotonic clock.
    var lastSign: UInt64 = 0

    init(_ request: consuming PlainRequest) { self.request = request }
}
