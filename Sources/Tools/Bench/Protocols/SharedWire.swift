// SharedWire: a shared topic of a Forebay node. Subscribers use RSocket; publishers publish to the topic's stream in
// JetStream, without acknowledgements, as the other nodes would.

struct SharedWire: Wire {
    /// What subscribers of a shared topic may use instead of `Subscription.unlimited`. The generator does not let them
    /// fall behind, and a message that is dropped counts as lost.
    private static let unlimited = "overflow=drop-oldest&buffer=1000000"
    /// The envelope that makes it a message and not a control message.
    private static let headers = "NATS/1.0\r\nForebay: 1\r\n\r\n"

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        var subscription = subscription
        if subscription.options == Subscription.unlimited { subscription.options = SharedWire.unlimited }
        return try RSocketWire().subscriber(subscription)
    }

    func publisher(topic: Int, payload: Int) -> Greeting { NATSWire().publisher(topic: topic, payload: payload) }

    func published(topic: Int, payload: Int) -> MessageFrame {
        let size = SharedWire.headers.utf8.count
        let head = "HPUB fb.p.-.\(name(topic)) \(size) \(size + payload)\r\n" + SharedWire.headers
        return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        RSocketWire().delivered(to: subscription, payload: payload)
    }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? { RSocketWire().refill(subscription, count) }
}
