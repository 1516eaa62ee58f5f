// Peer: drives a ServerConnection and records its events.

import Bytes
import Testing

@testable import RSocket

final class Peer {
    var connection: ServerConnection
    private(set) var transcript: [String] = []
    /// Refusals and fatal errors, for checks of their texts.
    private(set) var errors: [RSocketError] = []
    /// The ERROR frames of refusals and fatal errors in hexadecimal, without their lengths, up to the colon after the
    /// word.
    private(set) var answers: [String] = []
    var accepts = true
    /// Called for every event, right after it has been recorded.
    var onEvent: ((inout ServerConnection, String) -> Void)?
    /// Called after every event; returns whether to hold there. The bytes held back are handled in the next `feed` or
    /// `drain`.
    var holds: (() -> Bool)?
    private(set) var isHeld = false
    /// The bytes that followed RESUME.
    private(set) var rest: [UInt8]?
    private var clock: UInt64 = 0
    /// The number of runs among the events; the transcript has their messages one by one.
    private(set) var runs = 0

    init(limits: ConnectionLimits = ConnectionLimits()) {
        connection = ServerConnection(limits: limits)
    }

    /// Feeds `bytes` from memory that is overwritten as soon as that is allowed.
    func feed(_ bytes: some Collection<UInt8>) {
        clock += 1
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: bytes)
        connection.feed(UnsafeRawBufferPointer(memory), now: clock)
        drain()
        memory.initializeMemory(as: UInt8.self, repeating: 0xa5)
    }

    func drain() {
        isHeld = false
        while let event = connection.next() {
            let lines = describeAll(event)
            transcript += lines
            if case .setup = event, accepts { connection.acceptSetup() }
            if case .resume = event { rest = connection.takeRest() }
            for line in lines { onEvent?(&connection, line) }
            if holds?() == true {
                connection.hold()
                isHeld = true
                return
            }
        }
    }

    /// A server's action, in the notation of conversations.json.
    func act(_ words: String) throws {
        let parts = words.split(separator: " ").map(String.init)
        let stream = parts.count > 1 ? try #require(UInt32(parts[1])) : 0
        switch parts[0] {
        case "hold": accepts = false
        case "accept":
            connection.acceptSetup()
            drain()
        case "complete": connection.responderDone(stream: stream)
        case "cancel": connection.cancelRequester(stream: stream)
        case "close": connection.closeStream(stream)
        case "handle": connection.setHandle(try #require(UInt32(parts[2])), stream: stream)
        case "expire":
            connection.expireReassembly(startedBefore: clock + 1)
            drain()
        default: Issue.record("unknown action: \(words)")
        }
    }

    /// A line for each message of a run, as if they had arrived one by one.
    private func describeAll(_ event: Event) -> [String] {
        guard case .payloads(let run, let handle) = event else { return [describe(event)] }
        runs += 1
        var lines: [String] = []
        run.forEach {
            lines.append(
                describe(
                    .payload(
                        stream: run.stream, handle: handle, next: true, complete: false,
                        content: Content(metadata: nil, data: $0))))
            return true
        }
        #expect(lines.count == run.count)
        return lines
    }

    private func describe(_ event: Event) -> String {
        func content(_ c: Content) -> String {
            "metadata=\(c.metadata.map { hex($0) } ?? "-") data=\(hex(c.data))"
        }
        func named(_ handle: UInt32?) -> String {
            handle.flatMap { $0 == StreamEntry.noHandle ? nil : " handle=\($0)" } ?? ""
        }
        func text(_ code: UInt32, _ message: UnsafeRawBufferPointer) -> String {
            "0x\(String(code, radix: 16)) \(String(decoding: message, as: UTF8.self))"
        }
        switch event {
        case .setup(let setup):
            let c = setup.content
            let extra = c.metadata == nil && c.data.isEmpty ? "" : " " + content(c)
            let token = setup.resumeToken.map { " token=\(hex($0))" } ?? ""
            return "setup keepalive=\(setup.keepalive) lifetime=\(setup.lifetime)\(token)" + extra
        case .resume(let request):
            return "resume token=\(hex(request.token)) server=\(request.lastReceivedServerPosition)"
                + " client=\(request.firstAvailableClientPosition)"
        case .request(let stream, let kind, let initialN, let complete, let c):
            return "request \(stream) \(kind) n=\(initialN) complete=\(complete) " + content(c)
        case .payload(let stream, let handle, let next, let complete, let c):
            let metadata = c.metadata.map { " metadata=\(hex($0))" } ?? ""
            return "payload \(stream)\(next ? " next" : "")\(complete ? " complete" : "")\(metadata)"
                + " data=\(hex(c.data))" + named(handle)
        case .payloads: return "run"
        case .requestN(let stream, let handle, let n): return "request-n \(stream) \(n)" + named(handle)
        case .cancel(let stream, let handle): return "cancel \(stream)" + named(handle)
        case .error(let stream, let handle, let code, let message):
            return "error \(stream) \(text(code, message))" + named(handle)
        case .keepalive(let respond, let position, let data):
            return "keepalive \(respond ? "respond" : "-") position=\(position) data=\(hex(data))"
        case .metadataPush(let metadata): return "metadata-push \(hex(metadata))"
        case .refuse(let stream, let handle, let error):
            note(error, .stream(stream))
            answer(error)
            return "refuse \(stream) \(error.code.name)" + named(handle)
        case .drop(let stream, let error):
            note(error, .stream(stream))
            return "drop \(stream) \(error.code.name)"
        case .fatal(let error):
            note(error, .connection)
            answer(error)
            return "fatal \(error.code.name)"
        case .closedByPeer(let code, let message): return "closed-by-peer \(text(code, message))"
        }
    }

    private func note(_ error: RSocketError, _ scope: RSocketError.Scope) {
        errors.append(error)
        #expect(error.scope == scope)
    }

    private func answer(_ error: RSocketError) {
        let frame = encoded { FrameWriter.error(error, into: &$0) }.dropFirst(3)
        let colon = frame.dropFirst(10).firstIndex(of: UInt8(ascii: ":")) ?? frame.endIndex - 1
        answers.append(hex(frame[...colon]))
    }
}

/// A small generator with a seed, so that failures are reproducible.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
