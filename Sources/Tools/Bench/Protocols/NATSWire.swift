// NATSWire: the NATS client protocol: core publish and subscribe without replies, and for acknowledged publishes
// JetStream streams, in memory or in files.

struct NATSWire: Wire {
    /// A PING arrives a few seconds after connecting and is not answered: the broker waits for an hour.
    var noise: Noise? { Noise(first: UInt8(ascii: "P"), count: "PING\r\n".utf8.count) }

    static let connect =
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":true,\"headers\":true,\"protocol\":0}\r\n"
    /// The subject on which acknowledgements arrive.
    static let inbox = "_INBOX.b"
    private static let ping = Array("PING\r\n".utf8)
    private static let pong = Array("PONG\r\n".utf8)

    func subscriber(_ subscription: Subscription) -> Greeting {
        let subscribe = NATSWire.connect + "SUB \(name(subscription.topic)) 1\r\n"
        return Greeting(Array(subscribe.utf8), question: NATSWire.ping, sign: NATSWire.pong)
    }

    func publisher(topic: Int, payload: Int) -> Greeting {
        Greeting(Array(NATSWire.connect.utf8), question: NATSWire.ping, sign: NATSWire.pong)
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        MessageFrame(head: Array("PUB \(name(topic)) \(payload)\r\n".utf8), payload: payload, tail: [13, 10])
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        let head = "MSG \(name(subscription.topic)) 1 \(payload)\r\n"
        return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
    }

    /// Creates a stream named like its topic, with the latest 1,024 messages, as in a Forebay topic.
    static func stream(of topic: String, isStored: Bool) -> Greeting {
        let configuration =
            "{\"name\":\"\(topic)\",\"subjects\":[\"\(topic)\"],\"storage\":\"\(isStored ? "file" : "memory")\","
            + "\"retention\":\"limits\",\"max_msgs\":1024,\"discard\":\"old\",\"num_replicas\":1}"
        let text =
            connect
            + "SUB \(inbox) 1\r\nPUB $JS.API.STREAM.CREATE.\(topic) \(inbox) \(configuration.utf8.count)\r\n"
            + configuration + "\r\n"
        return Greeting(Array(text.utf8), sign: Array("\"did_create\":true}\r\n".utf8))
    }

    /// A request on a new connection.
    static func request(_ subject: String, _ body: String) -> [UInt8] {
        Array((connect + "SUB \(inbox) 1\r\nPUB \(subject) \(inbox) \(body.utf8.count)\r\n\(body)\r\n").utf8)
    }

    /// A publisher that receives acknowledgements.
    static func acknowledgedPublisher() -> Greeting {
        Greeting(Array((connect + "SUB \(inbox) 1\r\n").utf8), question: ping, sign: pong)
    }

    static func acknowledged(topic: String, payload: Int) -> MessageFrame {
        MessageFrame(head: Array("PUB \(topic) \(inbox) \(payload)\r\n".utf8), payload: payload, tail: [13, 10])
    }
}
