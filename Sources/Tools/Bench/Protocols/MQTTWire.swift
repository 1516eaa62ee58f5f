// MQTTWire: MQTT 3.1.1 with QoS 0.

struct MQTTWire: Wire {
    func subscriber(_ subscription: Subscription) -> Greeting {
        let filter = MQTTWire.string(name(subscription.topic)) + [0]
        let subscribe = MQTTWire.packet(0x82, [0, 1] + filter)
        return Greeting(MQTTWire.connect + subscribe, sign: [0x90, 3, 0, 1, 0])
    }

    func publisher(topic: Int, payload: Int) -> Greeting {
        Greeting(MQTTWire.connect, sign: [0x20, 2, 0, 0])
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        let name = MQTTWire.string(name(topic))
        return MessageFrame(head: [0x30] + MQTTWire.length(name.count + payload) + name, payload: payload)
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        published(topic: subscription.topic, payload: payload)
    }

    /// A clean session with a name assigned by the broker, without keep-alive.
    private static let connect = packet(0x10, string("MQTT") + [4, 2, 0, 0] + string(""))

    private static func packet(_ type: UInt8, _ body: [UInt8]) -> [UInt8] { [type] + length(body.count) + body }

    private static func string(_ text: String) -> [UInt8] {
        [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 0xff)] + Array(text.utf8)
    }

    /// "Remaining length": seven bits per byte, lowest first (MQTT 3.1.1, 2.2.3).
    static func length(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = count
        repeat {
            bytes.append(UInt8(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return bytes
    }
}
