// Every frame of Protocol/vectors/frames.json is decoded to the meaning given there, and written to the same bytes.

import Bytes
import Testing

@testable import RSocket

@Suite struct FrameVectorTests {
    @Test(arguments: Vectors.frames)
    func decodesToItsMeaning(_ vector: FrameVector) throws {
        let bytes = unhex(vector.hex)
        do {
            let frame = try decode(bytes)
            #expect(describe(frame, bytes) == vector.meaning)
            if vector.canonical != false { #expect(hex(rewrite(frame, bytes)) == vector.hex) }
        } catch let error as RSocketError {
            #expect(error.code.name == vector.error)
            #expect(error.scope == .connection)
            #expect(error.message.hasSuffix("."))
        }
    }

    @Test func everyTypeIsCovered() throws {
        let types = Vectors.frames.compactMap { $0.meaning?.split(separator: " ").first.map(String.init) }
        for type in FrameType.allCases { #expect(types.contains(type.name)) }
    }

    @Test(arguments: Vectors.fragments)
    func messagesAreWrittenInTheseFragments(_ vector: FragmentVector) throws {
        let type = try #require(FrameType.allCases.first { $0.name == vector.type })
        let frames = written { out in
            write(
                type, vector.metadata.map(unhex), unhex(vector.data), initialN: vector.n ?? 0,
                complete: vector.complete, fragment: vector.fragment, into: &out)
        }
        #expect(frames.map { hex($0) } == vector.frames)
    }
}

/// The meaning of a frame in the notation of frames.json.
private func describe(_ frame: Frame, _ bytes: [UInt8]) -> String {
    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
    func optional(_ range: Range<Int>?) -> String { range.map { hex(bytes[$0]) } ?? "-" }
    func content(_ c: Frame.Content) -> String { "metadata=\(optional(c.metadata)) data=\(hex(bytes[c.data]))" }
    let type = frame.header.type?.name ?? "0x" + String(frame.header.typeCode, radix: 16)
    let head = "\(type) stream=\(frame.stream) flags=\(flagNames(frame))"
    switch frame.body {
    case .setup(let s):
        return head + " version=\(s.major).\(s.minor) keepalive=\(s.keepalive) lifetime=\(s.lifetime)"
            + " token=\(optional(s.resumeToken)) metadata-mime=\(text(s.metadataMime))"
            + " data-mime=\(text(s.dataMime)) " + content(s.content)
    case .lease(let ttl, let n, let metadata): return head + " ttl=\(ttl) n=\(n) metadata=\(optional(metadata))"
    case .keepalive(_, let position, let data): return head + " position=\(position) data=\(hex(bytes[data]))"
    case .requestResponse(let c), .requestFNF(let c), .payload(_, _, let c): return head + " " + content(c)
    case .requestStream(let n, let c), .requestChannel(let n, _, let c): return head + " n=\(n) " + content(c)
    case .requestN(let n): return head + " n=\(n)"
    case .cancel, .unknown: return head
    case .error(let code, let message): return head + " code=0x\(String(code, radix: 16)) text=\(text(message))"
    case .metadataPush(let metadata): return head + " metadata=\(hex(bytes[metadata]))"
    case .resume(let r):
        return head + " version=\(r.major).\(r.minor) token=\(hex(bytes[r.token]))"
            + " server-position=\(r.lastReceivedServerPosition) client-position=\(r.firstAvailableClientPosition)"
    case .resumeOK(let position): return head + " position=\(position)"
    case .ext(let type, let body): return head + " type=\(type) body=\(hex(bytes[body]))"
    }
}

private func flagNames(_ frame: Frame) -> String {
    let type = frame.header.type
    let names: [(FrameFlags, String)] = [
        (.ignore, "I"), (.metadata, "M"), (.follows, type == .setup || type == .keepalive ? "R" : "F"),
        (.complete, type == .setup ? "L" : "C"), (.next, "N"),
    ]
    let set = names.filter { frame.flags.contains($0.0) }.map(\.1)
    return set.isEmpty ? "-" : set.joined(separator: ",")
}

/// The frame rewritten from its decoded fields, without its length.
private func rewrite(_ frame: Frame, _ bytes: [UInt8]) -> [UInt8] {
    func content(_ c: Frame.Content, _ type: FrameType, _ n: UInt32 = 0, _ out: inout ByteBuffer) {
        write(
            type, c.metadata.map { Array(bytes[$0]) }, Array(bytes[c.data]), stream: frame.stream, initialN: n,
            complete: frame.flags.contains(.complete), into: &out)
    }
    let out = bytes.withUnsafeBytes { all in
        encoded { out in
            switch frame.body {
            case .setup(let s):
                var setup = SetupRequest()
                (setup.major, setup.minor) = (s.major, s.minor)
                (setup.keepalive, setup.lifetime) = (s.keepalive, s.lifetime)
                setup.resumeToken = s.resumeToken.map { Array(bytes[$0]) }
                setup.lease = s.lease
                setup.metadataMime = String(decoding: bytes[s.metadataMime], as: UTF8.self)
                setup.dataMime = String(decoding: bytes[s.dataMime], as: UTF8.self)
                FrameWriter.setup(
                    setup, metadata: s.content.metadata.map { all.slice($0) }, data: all.slice(s.content.data),
                    into: &out)
            case .lease(let ttl, let n, let m):
                FrameWriter.lease(ttl: ttl, n: n, metadata: m.map { all.slice($0) }, into: &out)
            case .keepalive(let respond, let position, let data):
                FrameWriter.keepalive(respond: respond, position: position, data: all.slice(data), into: &out)
            case .requestResponse(let c): content(c, .requestResponse, 0, &out)
            case .requestFNF(let c): content(c, .requestFNF, 0, &out)
            case .requestStream(let n, let c): content(c, .requestStream, n, &out)
            case .requestChannel(let n, _, let c): content(c, .requestChannel, n, &out)
            case .payload(let next, let complete, let c):
                FrameWriter.payload(
                    stream: frame.stream, next: next, complete: complete, metadata: c.metadata.map { all.slice($0) },
                    data: all.slice(c.data), fragment: 0, into: &out)
            case .requestN(let n): FrameWriter.requestN(stream: frame.stream, n: n, into: &out)
            case .cancel: FrameWriter.cancel(stream: frame.stream, into: &out)
            case .error(let code, let m):
                let text = String(decoding: bytes[m], as: UTF8.self)
                FrameWriter.error(stream: frame.stream, code: code, message: text, into: &out)
            case .metadataPush(let m): FrameWriter.metadataPush(all.slice(m), into: &out)
            case .resume(let r):
                FrameWriter.resume(
                    token: Array(bytes[r.token]), lastReceivedServerPosition: r.lastReceivedServerPosition,
                    firstAvailableClientPosition: r.firstAvailableClientPosition, into: &out)
            case .resumeOK(let position): FrameWriter.resumeOK(lastReceivedClientPosition: position, into: &out)
            case .ext, .unknown: break
            }
        }
    }
    return Array(out.dropFirst(3))
}
