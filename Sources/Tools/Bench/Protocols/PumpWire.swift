// PumpWire: the byte pump, which has no framing. Its messages are as long as Forebay's frames, so that both move the
// same bytes.

import RSocket

struct PumpWire: Wire {
    private static let answer = [UInt8(ascii: "+")]

    func subscriber(_ subscription: Subscription) -> Greeting { Greeting([UInt8(ascii: "S")], sign: PumpWire.answer) }

    func publisher(topic: Int, payload: Int) -> Greeting { Greeting([UInt8(ascii: "P")], sign: PumpWire.answer) }

    func published(topic: Int, payload: Int) -> MessageFrame {
        RSocketWire().published(topic: topic, payload: payload)
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        published(topic: subscription.topic, payload: payload)
    }
}
