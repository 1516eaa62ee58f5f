// RSocket frames: what can be decoded can be encoded, and decodes to the same frame; also in fragments.

import Bytes

@testable import RSocket

/// A frame without the location of its bytes.
private struct Meaning: Equatable {
    var kind: String
    var numbers: [UInt64] = []
    var parts: [[UInt8]?] = []
}

func fuzzFrame(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let fragment = input.pick([0, 0, 0, 64, 65, 100, 300])
    withCopy(input.rest) { bytes in
        do throws(RSocketError) {
            let frame = try Frame.decode(bytes.bytes)
            let meaning = meaning(of: frame, bytes)
            mustHold(sum(frame) <= bytes.count, "the fields have more bytes than the frame")
            rewrite(frame, bytes, meaning, fragment)
        } catch {
            mustHold(error.scope == .connection && error.code == .connectionError, "\(error) is the wrong error")
        }
    }
}

private func meaning(of frame: Frame, _ bytes: UnsafeRawBufferPointer) -> Meaning {
    func part(_ range: Range<Int>?) -> [UInt8]? { range.map { Array(bytes[$0]) } }
    let stream = UInt64(frame.stream)
    func request(_ kind: String, _ numbers: [UInt64], _ content: Frame.Content) -> Meaning {
        Meaning(kind: kind, numbers: [stream] + numbers, parts: [part(content.metadata), part(content.data)])
    }
    switch frame.body {
    case .setup(let setup):
        return Meaning(
            kind: "setup",
            numbers: [UInt64(setup.major), UInt64(setup.minor), UInt64(setup.keepalive), UInt64(setup.lifetime)],
            parts: [
                part(setup.resumeToken), setup.lease ? [1] : [0], part(setup.metadataMime), part(setup.dataMime),
                part(setup.content.metadata), part(setup.content.data),
            ])
    case .lease(let ttl, let n, let metadata):
        return Meaning(kind: "lease", numbers: [UInt64(ttl), UInt64(n)], parts: [part(metadata)])
    case .keepalive(let respond, let position, let data):
        return Meaning(kind: "keepalive", numbers: [respond ? 1 : 0, position], parts: [part(data)])
    case .requestResponse(let content): return request("response", [], content)
    case .requestFNF(let content): return request("fire", [], content)
    case .requestStream(let n, let content): return request("stream", [UInt64(n)], content)
    case .requestChannel(let n, let complete, let content):
        return request("channel", [UInt64(n), complete ? 1 : 0], content)
    case .requestN(let n): return Meaning(kind: "n", numbers: [stream, UInt64(n)])
    case .cancel: return Meaning(kind: "cancel", numbers: [stream])
    case .payload(let next, let complete, let content):
        return request("payload", [next ? 1 : 0, complete ? 1 : 0], content)
    case .error(let code, let message):
        return Meaning(kind: "error", numbers: [stream, UInt64(code)], parts: [part(message)])
    case .metadataPush(let metadata): return Meaning(kind: "push", parts: [part(metadata)])
    case .resume(let resume):
        return Meaning(
            kind: "resume", numbers: [resume.lastReceivedServerPosition, resume.firstAvailableClientPosition],
            parts: [part(resume.token)])
    case .resumeOK(let position): return Meaning(kind: "resumed", numbers: [position])
    case .ext(let type, let rest): return Meaning(kind: "ext", numbers: [UInt64(type)], parts: [part(rest)])
    case .unknown: return Meaning(kind: "unknown")
    }
}

private func sum(_ frame: Frame) -> Int {
    switch frame.body {
    case .requestResponse(let c), .requestFNF(let c), .requestStream(_, let c), .requestChannel(_, _, let c),
        .payload(_, _, let c):
        6 + (c.metadata.map { 3 + $0.count } ?? 0) + c.data.count
    default: 6
    }
}

/// Writes the frame again and compares.
private func rewrite(_ frame: Frame, _ bytes: UnsafeRawBufferPointer, _ meaning: Meaning, _ fragment: Int) {
    var out = ByteBuffer()
    guard write(frame, bytes, fragment, into: &out) else { return }
    var frames = FuzzInput(out.readable)
    var whole: Meaning?
    var follows = true
    while !frames.isEmpty {
        let length = frames.take(3).u24(at: 0)
        let bytes = frames.take(length)
        mustHold(bytes.count == length && follows, "the frames have wrong lengths, or one follows the last")
        mustHold(fragment == 0 || length <= fragment || !isMessage(frame), "a fragment has \(length) bytes")
        guard let part = try? Frame.decode(bytes.bytes) else { return report("a written frame cannot be decoded") }
        follows = part.follows
        join(UnsafeRawBufferPointer(rebasing: bytes[...]), part, &whole)
    }
    mustHold(!follows || !isMessage(frame), "the last fragment is followed by others")
    var expected = meaning
    // The fragments of an item always carry the flag N if there are several.
    if case .payload = frame.body, let whole, out.count > fragment + 3, fragment > 0 {
        expected.numbers[1] = whole.numbers[1]
    }
    mustHold(whole == expected, "written and decoded again \(expected) is \(String(describing: whole))")
}

private func join(_ bytes: UnsafeRawBufferPointer, _ part: Frame, _ whole: inout Meaning?) {
    let next = meaning(of: part, bytes)
    guard let first = whole else { return whole = next }
    var joined = first
    if let metadata = next.parts[0] {
        mustHold(joined.parts[1] == [], "metadata follows data")
        joined.parts[0] = (joined.parts[0] ?? []) + metadata
    }
    joined.parts[1]! += next.parts[1]!
    // The flag C of a PAYLOAD belongs on the last fragment.
    joined.numbers[joined.numbers.count - 1] =
        joined.kind == "payload" ? next.numbers[2] : joined.numbers[joined.numbers.count - 1]
    whole = joined
}

private func isMessage(_ frame: Frame) -> Bool {
    switch frame.body {
    case .requestResponse, .requestFNF, .requestStream, .requestChannel, .payload: true
    default: false
    }
}

/// Returns false for frames that cannot be written.
private func write(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, _ fragment: Int, into out: inout ByteBuffer
) -> Bool {
    let stream = frame.stream
    func text(_ range: Range<Int>) -> String? { String(validating: bytes[range], as: UTF8.self) }
    func parts(_ content: Frame.Content) -> (UnsafeRawBufferPointer?, UnsafeRawBufferPointer) {
        (content.metadata.map(bytes.slice), bytes.slice(content.data))
    }
    switch frame.body {
    case .setup(let fields):
        guard frame.stream == 0, let metadataMime = text(fields.metadataMime), let dataMime = text(fields.dataMime)
        else { return false }
        var setup = SetupRequest()
        (setup.major, setup.minor) = (fields.major, fields.minor)
        (setup.keepalive, setup.lifetime, setup.lease) = (fields.keepalive, fields.lifetime, fields.lease)
        setup.resumeToken = fields.resumeToken.map { Array(bytes[$0]) }
        (setup.metadataMime, setup.dataMime) = (metadataMime, dataMime)
        let (metadata, data) = parts(fields.content)
        FrameWriter.setup(setup, metadata: metadata, data: data, into: &out)
    case .lease(let ttl, let n, let metadata):
        FrameWriter.lease(ttl: ttl, n: n, metadata: metadata.map(bytes.slice), into: &out)
    case .keepalive(let respond, let position, let data):
        FrameWriter.keepalive(respond: respond, position: position, data: bytes.slice(data), into: &out)
    case .requestResponse(let content):
        let (metadata, data) = parts(content)
        FrameWriter.requestResponse(stream: stream, metadata: metadata, data: data, fragment: fragment, into: &out)
    case .requestFNF(let content):
        let (metadata, data) = parts(content)
        FrameWriter.requestFNF(stream: stream, metadata: metadata, data: data, fragment: fragment, into: &out)
    case .requestStream(let n, let content):
        let (metadata, data) = parts(content)
        FrameWriter.requestStream(
            stream: stream, initialN: n, metadata: metadata, data: data, fragment: fragment, into: &out)
    case .requestChannel(let n, let complete, let content):
        // A complete request split in two would need the flag C on the last fragment, where it means the same.
        guard !complete || fragment == 0 else { return false }
        let (metadata, data) = parts(content)
        FrameWriter.requestChannel(
            stream: stream, initialN: n, complete: complete, metadata: metadata, data: data, fragment: fragment,
            into: &out)
    case .requestN(let n): FrameWriter.requestN(stream: stream, n: n, into: &out)
    case .cancel: FrameWriter.cancel(stream: stream, into: &out)
    case .payload(let next, let complete, let content):
        let (metadata, data) = parts(content)
        FrameWriter.payload(
            stream: stream, next: next, complete: complete, metadata: metadata, data: data, fragment: fragment,
            into: &out)
    case .error(let code, let message):
        guard let message = text(message) else { return false }
        FrameWriter.error(stream: stream, code: code, message: message, into: &out)
    case .metadataPush(let metadata): FrameWriter.metadataPush(bytes.slice(metadata), into: &out)
    case .resume(let resume) where (resume.major, resume.minor) == (1, 0):
        FrameWriter.resume(
            token: Array(bytes[resume.token]), lastReceivedServerPosition: resume.lastReceivedServerPosition,
            firstAvailableClientPosition: resume.firstAvailableClientPosition, into: &out)
    case .resumeOK(let position): FrameWriter.resumeOK(lastReceivedClientPosition: position, into: &out)
    case .resume, .ext, .unknown: return false
    }
    return true
}
