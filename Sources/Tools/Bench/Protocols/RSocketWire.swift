// RSocketWire: Forebay over RSocket. A subscriber is a REQUEST_STREAM, a publisher a REQUEST_CHANNEL under the broker's
// credit, an acknowledged publish a REQUEST_RESPONSE. Only one acknowledgement of the channel is requested; the broker
// merges the others.

import Bytes
import RSocket

struct RSocketWire: Wire {
    var grantsPublishers: Bool { true }
    /// The channel's stream id, and that of the only stream of most subscribers.
    static let stream: UInt32 = 1
    /// Unbounded credit.
    static let unbounded: UInt32 = 0x7fff_ffff
    private static let ready = Array("ready".utf8)

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        var out = ByteBuffer()
        setup(&out)
        let options = subscription.options.isEmpty ? "" : "?" + subscription.options
        let route = try RSocketWire.route(name(subscription.topic) + options)
        FrameWriter.requestStream(
            stream: subscription.stream, initialN: subscription.window.map(UInt32.init) ?? RSocketWire.unbounded,
            metadata: route.readable, data: RSocketWire.nothing, fragment: 0, into: &out)
        return RSocketWire.answered(out)
    }

    /// A connection without requests yet.
    func connection() -> Greeting {
        var out = ByteBuffer()
        setup(&out)
        return RSocketWire.answered(out)
    }

    /// A subscription that is cancelled at once and can be repeated on the same stream.
    static func churn(topic: String) throws(BenchError) -> [UInt8] {
        var out = ByteBuffer()
        let route = try RSocketWire.route(topic)
        FrameWriter.requestStream(
            stream: stream, initialN: unbounded, metadata: route.readable, data: nothing, fragment: 0, into: &out)
        FrameWriter.cancel(stream: stream, into: &out)
        return Array(out.readable)
    }

    /// Adds a KEEPALIVE, which is answered after the requests and so shows that these were accepted.
    static func answered(_ out: borrowing ByteBuffer) -> Greeting {
        var keepalive = ByteBuffer()
        ready.withUnsafeBytes { FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &keepalive) }
        return Greeting(Array(out.readable), question: Array(keepalive.readable), sign: ready)
    }

    func publisher(topic: Int, payload: Int) throws(BenchError) -> Greeting {
        var out = ByteBuffer()
        setup(&out)
        let route = try RSocketWire.route(name(topic))
        let item = [UInt8](repeating: 0, count: payload)
        item.withUnsafeBytes {
            FrameWriter.requestChannel(
                stream: RSocketWire.stream, initialN: 1, complete: false, metadata: route.readable, data: $0,
                fragment: 0, into: &out)
        }
        return Greeting(Array(out.readable))
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        RSocketWire.payload(stream: RSocketWire.stream, count: payload)
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        RSocketWire.payload(stream: subscription.stream, count: payload)
    }

    /// The end of the publisher's half; the broker ends its own half once everything is acknowledged.
    static func complete() -> [UInt8] {
        var out = ByteBuffer()
        FrameWriter.payload(
            stream: stream, next: false, complete: true, metadata: nil, data: nothing, fragment: 0, into: &out)
        return Array(out.readable)
    }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? {
        var out = ByteBuffer()
        FrameWriter.requestN(stream: subscription.stream, n: UInt32(count), into: &out)
        return Array(out.readable)
    }

    /// An acknowledged publish on stream 0, to be patched at `streamOffset`.
    static func acknowledged(topic: String, payload: Int) throws(BenchError) -> MessageFrame {
        var out = ByteBuffer()
        let route = try RSocketWire.route(topic)
        let data = [UInt8](repeating: 0, count: payload)
        data.withUnsafeBytes {
            FrameWriter.requestResponse(stream: 0, metadata: route.readable, data: $0, fragment: 0, into: &out)
        }
        return MessageFrame(head: Array(out.readable.dropLast(payload)), payload: payload)
    }

    /// A fire-and-forget publish.
    static func fired(topic: String, payload: Int) -> MessageFrame {
        var out = ByteBuffer()
        guard let route = try? RSocketWire.route(topic) else { preconditionFailure("The name must fit into a route.") }
        let data = [UInt8](repeating: 0, count: payload)
        data.withUnsafeBytes {
            FrameWriter.requestFNF(stream: stream, metadata: route.readable, data: $0, fragment: 0, into: &out)
        }
        return MessageFrame(head: Array(out.readable.dropLast(payload)), payload: payload)
    }

    static let streamOffset = 3

    func setup(_ out: inout ByteBuffer) {
        var setup = SetupRequest()
        // Longer than any case, so that no KEEPALIVE needs to be sent.
        setup.keepalive = 600_000
        setup.lifetime = 600_000
        FrameWriter.setup(setup, into: &out)
    }

    private static func payload(stream: UInt32, count: Int) -> MessageFrame {
        precondition(count <= 32 << 10, "A payload must fit into one frame.")
        var out = ByteBuffer()
        let data = [UInt8](repeating: 0, count: count)
        data.withUnsafeBytes {
            FrameWriter.payload(
                stream: stream, next: true, complete: false, metadata: nil, data: $0, fragment: 0, into: &out)
        }
        return MessageFrame(head: Array(out.readable.dropLast(count)), payload: count)
    }

    static func route(_ route: String) throws(BenchError) -> ByteBuffer {
        var out = ByteBuffer()
        do throws(RSocketError) {
            try CompositeMetadata.appendRoute([route], into: &out)
        } catch {
            throw BenchError("the route \(route) cannot be sent: \(error.sentence)")
        }
        return out
    }

    static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
