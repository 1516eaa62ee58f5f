// SharedWire: a shared topic of Forebay's nodes, over RSocket. RepublishedWire: a stream of NATS JetStream.

import Bytes
import RSocket

struct SharedWire: Wire {
    enum Publishing {
        /// To the topic's stream in JetStream, without acknowledgements, as other nodes would.
        case stream
        /// At a node, fire-and-forget.
        case node
    }

    var publishing = Publishing.stream

    /// What subscribers of a shared topic may use instead of `Subscription.unlimited`. The generator does not let them
    /// fall behind, and a message that is dropped counts as lost.
    private static let unlimited = "overflow=drop-oldest&buffer=1000000"
    /// The envelope of a message; one without it is a control message.
    private static let headers = "NATS/1.0\r\nForebay: 1\r\n\r\n"

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        var subscription = subscription
        if subscription.options == Subscription.unlimited { subscription.options = SharedWire.unlimited }
        return try RSocketWire().subscriber(subscription)
    }

    func publisher(topic: Int, payload: Int) -> Greeting {
        switch publishing {
        case .stream: NATSWire().publisher(topic: topic, payload: payload)
        case .node: RSocketWire().connection()
        }
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        switch publishing {
        case .stream:
            let size = SharedWire.headers.utf8.count
            let head = "HPUB fb.p.-.\(name(topic)) \(size) \(size + payload)\r\n" + SharedWire.headers
            return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
        case .node: return RSocketWire.fired(topic: name(topic), payload: payload)
        }
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        RSocketWire().delivered(to: subscription, payload: payload)
    }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? { RSocketWire().refill(subscription, count) }
}

/// Publishers get acknowledgements, and subscribers the messages that the stream republishes.
struct RepublishedWire: Wire {
    var noise: Noise? { NATSWire().noise }

    /// The stream's configuration, like that of a shared topic.
    static func stream(of topic: String, replicas: Int) -> String {
        "{\"name\":\"\(topic)\",\"subjects\":[\"\(topic)\"],\"storage\":\"file\",\"retention\":\"limits\","
            + "\"discard\":\"old\",\"max_msgs\":1024,\"num_replicas\":\(replicas),\"allow_direct\":true,"
            + "\"republish\":{\"src\":\"\(topic)\",\"dest\":\"live.\(topic)\"}}"
    }

    func subscriber(_ subscription: Subscription) -> Greeting {
        var greeting = NATSWire().subscriber(subscription)
        greeting.bytes = Array((NATSWire.connect + "SUB live.\(name(subscription.topic)) 1\r\n").utf8)
        return greeting
    }

    func publisher(topic: Int, payload: Int) -> Greeting { NATSWire.acknowledgedPublisher() }

    func published(topic: Int, payload: Int) -> MessageFrame {
        NATSWire.acknowledged(topic: name(topic), payload: payload)
    }

    /// The stream adds headers of different sizes: each message counts as its payload.
    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        MessageFrame(head: [], payload: payload)
    }

    func reader(payload: Int) -> (any MessageReader)? { RepublishedReader(payload: payload) }
}
