// RedisWire: Redis pub/sub in RESP 2. Publishers disable replies, because no other system sends one per message.
// Acknowledged publishes append to a Redis stream, and are answered with the message's id.

struct RedisWire: Wire {
    func subscriber(_ subscription: Subscription) -> Greeting {
        let name = name(subscription.topic)
        let request = RedisWire.command(["SUBSCRIBE", name])
        return Greeting(request, sign: Array("$\(name.utf8.count)\r\n\(name)\r\n:1\r\n".utf8))
    }

    func publisher(topic: Int, payload: Int) -> Greeting {
        Greeting(
            RedisWire.command(["PING"]) + RedisWire.command(["CLIENT", "REPLY", "OFF"]), sign: Array("+PONG\r\n".utf8))
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        let name = name(topic)
        let head = "*3\r\n$7\r\nPUBLISH\r\n$\(name.utf8.count)\r\n\(name)\r\n$\(payload)\r\n"
        return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        let name = name(subscription.topic)
        let head = "*3\r\n$7\r\nmessage\r\n$\(name.utf8.count)\r\n\(name)\r\n$\(payload)\r\n"
        return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
    }

    static func acknowledgedPublisher() -> Greeting {
        Greeting(command(["PING"]), sign: Array("+PONG\r\n".utf8))
    }

    /// Appends to a stream of about the latest 1,024 messages: only whole nodes of 100 messages are removed.
    static func acknowledged(topic: String, payload: Int) -> MessageFrame {
        var head = "*8\r\n"
        for word in ["XADD", topic, "MAXLEN", "~", "1024", "*", "m"] { head += "$\(word.utf8.count)\r\n\(word)\r\n" }
        head += "$\(payload)\r\n"
        return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
    }

    static func command(_ words: [String]) -> [UInt8] {
        var text = "*\(words.count)\r\n"
        for word in words { text += "$\(word.utf8.count)\r\n\(word)\r\n" }
        return Array(text.utf8)
    }
}
