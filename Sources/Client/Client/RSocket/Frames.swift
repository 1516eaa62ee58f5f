// Frames: the frames that a requester sends, and the interpretation of those that it receives.

import Bytes
import RSocket

/// A received frame, with what a requester needs of it. The bytes are those of the frame.
enum Inbound {
    struct Payload {
        let follows: Bool
        let complete: Bool
        let next: Bool
        let metadata: UnsafeRawBufferPointer?
        let data: UnsafeRawBufferPointer
    }
    case payload(UInt32, Payload)
    case requestN(UInt32, UInt32)
    case cancel(UInt32)
    case error(UInt32, code: UInt32, text: UnsafeRawBufferPointer)
    case keepalive(respond: Bool, UnsafeRawBufferPointer)
    /// The broker makes a request; `answered`: whether it expects an answer.
    case request(UInt32, answered: Bool)
    case ignored
    case violation(String)
}

enum Interaction {
    case response, stream, channel
}

enum Frames {
    static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    static func setup(_ limits: ClientLimits, _ credentials: Credentials?, into out: inout ByteBuffer) {
        var setup = SetupRequest()
        setup.keepalive = UInt32(clamping: limits.keepaliveInterval / 1_000_000)
        setup.lifetime = UInt32(clamping: limits.lifetime / 1_000_000)
        var metadata = ByteBuffer()
        credentials?.append(into: &metadata)
        FrameWriter.setup(setup, metadata: metadata.isEmpty ? nil : metadata.readable, into: &out)
    }

    /// Writes a request whose metadata is the route and whose data is `data`, fragmented if it is large.
    static func request(
        _ kind: Interaction, _ id: StreamID, n: UInt32, _ route: Route, _ data: UnsafeRawBufferPointer,
        _ properties: MessageProperties = MessageProperties(), complete: Bool, fragment: Int,
        into out: inout ByteBuffer
    ) throws(ClientError) {
        guard !route.name.isEmpty else {
            throw ClientError(.invalid, "The topic's name is empty; give one such as orders.eu.")
        }
        guard let tags = route.tags else {
            throw ClientError(
                .invalid, "'\(route.name)' with its options is too long; at most \(Route.tagLimit) bytes are allowed.")
        }
        var composite = ByteBuffer()
        do throws(RSocketError) {
            try CompositeMetadata.appendRoute(tags, into: &composite)
        } catch {
            throw ClientError(.invalid, error.sentence)
        }
        properties.appendMetadata(into: &composite)
        let metadata = composite.readable
        let id = id.value
        switch kind {
        case .response:
            FrameWriter.requestResponse(stream: id, metadata: metadata, data: data, fragment: fragment, into: &out)
        case .stream:
            FrameWriter.requestStream(
                stream: id, initialN: n, metadata: metadata, data: data, fragment: fragment, into: &out)
        case .channel:
            FrameWriter.requestChannel(
                stream: id, initialN: n, complete: complete, metadata: metadata, data: data, fragment: fragment,
                into: &out)
        }
    }

    /// Decodes one frame, without its length.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> Inbound {
        let frame: Frame
        do throws(RSocketError) {
            frame = try Frame.decode(bytes.bytes)
        } catch {
            // A frame that is not understood may be ignored if its I flag is set (RSocket, "Ignore flag").
            let isIgnorable = bytes.count >= 6 && bytes.bigEndian(at: 4, as: UInt16.self) & 0x200 != 0
            return isIgnorable ? .ignored : .violation(error.sentence)
        }
        let id = frame.stream
        switch frame.body {
        case .payload(let next, let complete, let content):
            let follows = frame.follows
            let payload = Inbound.Payload(
                follows: follows, complete: complete, next: next, metadata: content.metadata.map(bytes.slice),
                data: bytes.slice(content.data))
            return .payload(id, payload)
        case .requestN(let n): return .requestN(id, n)
        case .cancel: return .cancel(id)
        case .error(let code, let message): return .error(id, code: code, text: bytes.slice(message))
        case .keepalive(let respond, _, let data): return .keepalive(respond: respond, bytes.slice(data))
        case .requestResponse, .requestStream, .requestChannel: return .request(id, answered: true)
        case .requestFNF, .metadataPush, .lease: return .ignored
        case .setup, .resume, .resumeOK, .ext, .unknown:
            return frame.flags.contains(.ignore)
                ? .ignored : .violation("A frame of type \(frame.header.typeName) is not allowed here.")
        }
    }
}
