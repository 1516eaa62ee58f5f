// Frames: what RSocket clients send, collected to be read at once.

import Bytes
import RSocket

/// A client's request to the broker, on a stream.
enum Request {
    case subscribe(UInt32, String)
    case request(UInt32)
    case cancel(UInt32)
    case channel(UInt32, String)
    case item(UInt32)
    case fireAndForget(UInt32, String)
    case ask(UInt32, String)
}

final class Frames {
    private var out = ByteBuffer()

    /// Bytes that stay in memory permanently.
    var bytes: UnsafeRawBufferPointer { Run.lasting { $0.append(out.readable) } }

    func setup(resumeToken: [UInt8]? = nil) {
        var setup = SetupRequest()
        setup.lifetime = 600_000
        setup.resumeToken = resumeToken
        FrameWriter.setup(setup, into: &out)
    }

    func subscribe(_ stream: UInt32, _ route: String, n: UInt32 = 0x7fff_ffff) throws(Fault) {
        let route = try Run.route(route)
        FrameWriter.requestStream(
            stream: stream, initialN: n, metadata: route.readable, data: Run.nothing, fragment: 0, into: &out)
    }

    func request(_ stream: UInt32, n: UInt32 = 1) { FrameWriter.requestN(stream: stream, n: n, into: &out) }

    func cancel(_ stream: UInt32) { FrameWriter.cancel(stream: stream, into: &out) }

    func channel(_ stream: UInt32, _ route: String) throws(Fault) {
        let route = try Run.route(route)
        Frames.payload.withUnsafeBytes {
            FrameWriter.requestChannel(
                stream: stream, initialN: 1, complete: false, metadata: route.readable, data: $0, fragment: 0,
                into: &out)
        }
    }

    func item(_ stream: UInt32) {
        Frames.payload.withUnsafeBytes {
            FrameWriter.payload(
                stream: stream, next: true, complete: false, metadata: nil, data: $0, fragment: 0, into: &out)
        }
    }

    func fireAndForget(_ stream: UInt32, _ route: String) throws(Fault) {
        let route = try Run.route(route)
        Frames.payload.withUnsafeBytes {
            FrameWriter.requestFNF(stream: stream, metadata: route.readable, data: $0, fragment: 0, into: &out)
        }
    }

    func ask(_ stream: UInt32, _ route: String) throws(Fault) {
        // The data of a control request would be read as options.
        let payload = route.hasPrefix("$SYS.") ? [] : Frames.payload
        let route = try Run.route(route)
        payload.withUnsafeBytes {
            FrameWriter.requestResponse(stream: stream, metadata: route.readable, data: $0, fragment: 0, into: &out)
        }
    }

    func add(_ request: Request) throws(Fault) {
        switch request {
        case .subscribe(let stream, let route): try subscribe(stream, route)
        case .request(let stream): self.request(stream)
        case .cancel(let stream): cancel(stream)
        case .channel(let stream, let route): try channel(stream, route)
        case .item(let stream): item(stream)
        case .fireAndForget(let stream, let route): try fireAndForget(stream, route)
        case .ask(let stream, let route): try ask(stream, route)
        }
    }

    static let payload = [UInt8](repeating: 0x78, count: 64)
    /// Bytes of a message on its way to a subscriber.
    static let delivered = FrameWriter.payloadSize(metadata: nil, data: payload.count, fragment: 0)
}
