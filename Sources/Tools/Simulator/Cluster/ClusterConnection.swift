// ClusterConnection: an RSocket connection to a node of a cluster. Messages are short, so nothing is fragmented.

import Bytes
import ForebayWire
import RSocket

final class ClusterConnection {
    enum Arrival {
        case message(metadata: [UInt8]?, data: [UInt8])
        case completion
        case error(String)
    }

    private let wire: Wire
    private var inbox = ByteBuffer()
    private var stream: UInt32 = 1
    /// The error that ended the connection.
    private(set) var error: String?

    init(_ wire: Wire) {
        self.wire = wire
        var setup = SetupRequest()
        setup.metadataMime = "text/plain"
        setup.lifetime = 0x7FFF_FFFF
        wire.send { FrameWriter.setup(setup, into: &$0) }
    }

    var isClosed: Bool { wire.isClosed && wire.arrived == 0 || error != nil }

    /// How many bytes may be on their way to the client.
    func narrow(to capacity: Int) { wire.capacity = capacity }

    func close() { wire.isHalfClosed = true }

    func subscribe(_ route: String, n: Int, data: String = "") {
        let (route, data) = (Array(route.utf8), Array(data.utf8))
        route.withUnsafeBytes { route in
            data.withUnsafeBytes { data in
                wire.send {
                    FrameWriter.requestStream(
                        stream: stream, initialN: UInt32(n), metadata: route, data: data, fragment: 0, into: &$0)
                }
            }
        }
    }

    func request(_ n: Int) { wire.send { FrameWriter.requestN(stream: stream, n: UInt32(n), into: &$0) } }

    /// Sends a request for one answer, on a stream of its own.
    func ask(_ route: String, _ text: String) {
        let (route, text) = (Array(route.utf8), Array(text.utf8))
        route.withUnsafeBytes { route in
            text.withUnsafeBytes { text in
                wire.send {
                    FrameWriter.requestResponse(stream: stream, metadata: route, data: text, fragment: 0, into: &$0)
                }
            }
        }
        stream += 2
    }

    /// Reads what has arrived. Streams follow one another, so it is clear which one is meant.
    func read(_ referee: Referee, _ take: (Arrival) -> Void) {
        wire.take(wire.arrived, into: &inbox)
        while inbox.count >= 3, inbox.count >= 3 + inbox.readable.u24(at: 0) {
            let length = inbox.readable.u24(at: 0)
            let bytes = [UInt8](inbox.readable.slice(3..<3 + length))
            inbox.consume(3 + length)
            guard let arrival = decode(bytes, referee) else { continue }
            take(arrival.0)
            if arrival.isLast { take(.completion) }
        }
    }

    private func decode(_ bytes: [UInt8], _ referee: Referee) -> (Arrival, isLast: Bool)? {
        bytes.withUnsafeBytes { bytes in
            guard let frame = try? Frame.decode(bytes.bytes) else {
                referee.fail("a client was sent a frame that cannot be decoded")
                return nil
            }
            switch frame.body {
            case .payload(true, let complete, let content):
                let metadata = content.metadata.map { [UInt8](bytes[$0]) }
                return (.message(metadata: metadata, data: [UInt8](bytes[content.data])), complete)
            case .payload: return (.completion, false)
            case .error(_, let text) where frame.stream == 0:
                error = String(decoding: bytes[text], as: UTF8.self)
                return nil
            case .error(_, let text): return (.error(String(decoding: bytes[text], as: UTF8.self)), false)
            default: return nil
            }
        }
    }
}
