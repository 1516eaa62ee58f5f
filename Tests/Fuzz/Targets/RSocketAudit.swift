// An RSocket client that keeps accounts: whatever bytes it sends, no stream may deliver more than those bytes could
// have requested, or anything after its end.

import Bytes
import Client

@testable import RSocket

final class RSocketAudit: FuzzPeer {
    private struct Account {
        /// At least what the broker counts as requested.
        var asked: UInt64 = 0
        var delivered: UInt64 = 0
        /// Requests sent with this stream's id, and ends received on it.
        var requests = 0
        var ends = 0
        /// The last message of each topic that the first request has received, by epoch.
        var last: [UInt64: UInt64] = [:]
    }

    private var accounts: [UInt32: Account] = [:]
    private var sent = ByteBuffer()
    /// How much of the frame at the front of `sent` has been counted: 1 is its header, 2 is also its number.
    private var counted = 0
    private var isLost = false
    private var came = ByteBuffer()
    private var isReported = false

    init(_ broker: FuzzBroker, _ shard: Int) { super.init(broker, shard, .rsocket) }

    override func send(_ bytes: UnsafeRawBufferPointer) {
        account(bytes)
        super.send(bytes)
    }

    // Requests

    /// A frame counts as soon as its header and its number are complete: from that moment on, the broker may act on
    /// them.
    private func account(_ bytes: UnsafeRawBufferPointer) {
        sent.append(bytes)
        while !isLost, sent.count >= 9 {
            let length = sent.readable.u24(at: 0)
            guard length >= 6 else {
                isLost = true
                return
            }
            let header = FrameHeader(unchecked: sent.readable.slice(3..<9).bytes)
            if counted == 0 { countRequest(header) }
            if counted < 2, length >= 10, sent.count >= 13 {
                count(header, UInt64(sent.readable.bigEndian(at: 9, as: UInt32.self) & Wire.maxU31))
                counted = 2
            }
            counted = max(counted, 1)
            guard sent.count >= 3 + length else { return }
            sent.consume(3 + length)
            counted = 0
        }
    }

    private func countRequest(_ header: FrameHeader) {
        switch header.type {
        case .requestResponse: ask(header.stream, 1, isRequest: true)
        case .requestStream, .requestChannel, .requestFNF: ask(header.stream, 0, isRequest: true)
        default: break
        }
    }

    private func count(_ header: FrameHeader, _ n: UInt64) {
        switch header.type {
        case .requestStream, .requestChannel, .requestN: ask(header.stream, n, isRequest: false)
        default: break
        }
    }

    private func ask(_ stream: UInt32, _ n: UInt64, isRequest: Bool) {
        var account = accounts[stream] ?? Account()
        account.asked += n
        if isRequest { account.requests += 1 }
        accounts[stream] = account
    }

    // Deliveries

    override func take(_ bytes: UnsafeRawBufferPointer) {
        came.append(bytes)
        while came.count >= 3 {
            let length = came.readable.u24(at: 0)
            guard came.count >= 3 + length else { return }
            receive(came.readable.slice(3..<3 + length))
            came.consume(3 + length)
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        guard let frame = try? Frame.decode(bytes.bytes) else { return report("the broker sent an invalid frame") }
        mustHold(!isReported, "the broker sent \(frame) after its last error")
        guard frame.stream != 0 else {
            if case .error = frame.body { isReported = true }
            return
        }
        guard var account = accounts[frame.stream] else { return report("\(frame) is on an unopened stream") }
        switch frame.body {
        case .payload(let next, let complete, let content):
            mustHold(account.ends < account.requests, "\(frame) arrives after the end")
            // On an id that is used again, it is not known which request a message answers.
            if next, account.requests == 1, let metadata = content.metadata,
                let info = MessageInfo(metadata: bytes.slice(metadata))
            {
                mustHold(info.sequence > account.last[info.epoch] ?? 0, "\(info) is not after the message before it")
                account.last[info.epoch] = info.sequence
            }
            if next, !frame.follows {
                account.delivered += 1
                let isUnbounded = account.asked >= UInt64(Wire.maxU31)
                mustHold(
                    isUnbounded || account.delivered <= account.asked,
                    "\(account.delivered) were delivered on \(frame.stream), \(account.asked) requested")
            }
            if complete { account.ends += 1 }
        case .error:
            mustHold(account.ends < account.requests, "\(frame) arrives after the end")
            account.ends += 1
        case .requestN(let n): mustHold(n > 0, "a demand of 0")
        case .cancel: break
        default: report("the broker sent \(frame)")
        }
        accounts[frame.stream] = account
    }
}

/// A SETUP with a name and a password. `FuzzBroker.answerLogin` decides whether it is accepted.
func writeLogin(_ user: String, into out: inout ByteBuffer) {
    var setup = SetupRequest()
    setup.metadataMime = MimeType.authentication
    setup.lifetime = 600_000
    let credentials: [UInt8] = [0x80, 0, UInt8(user.utf8.count)] + Array(user.utf8) + Array("?".utf8)
    credentials.withUnsafeBytes { FrameWriter.setup(setup, metadata: $0, into: &out) }
}

/// Two connections that use their own topic, one on each shard, and receive everything whatever others do.
final class Canary {
    private final class Peer: FuzzPeer {
        var frames: [(header: FrameHeader, body: Frame.Body, bytes: [UInt8])] = []
        private var came = ByteBuffer()

        override func take(_ bytes: UnsafeRawBufferPointer) {
            came.append(bytes)
            while came.count >= 3, came.count >= 3 + came.readable.u24(at: 0) {
                let bytes = came.readable.slice(3..<3 + came.readable.u24(at: 0))
                if let frame = try? Frame.decode(bytes.bytes), frame.stream != 0 {
                    frames.append((frame.header, frame.body, Array(bytes)))
                }
                came.consume(3 + bytes.count)
            }
        }
    }

    private let broker: FuzzBroker
    private let subscriber: Peer
    private let publisher: Peer
    private var sequence = 0

    init(_ broker: FuzzBroker) {
        self.broker = broker
        subscriber = Peer(broker, 0, .rsocket)
        publisher = Peer(broker, 1, .rsocket)
        for peer in [subscriber, publisher] {
            peer.send { writeLogin("canary", into: &$0) }
            broker.answerLogin(6 + 256)
        }
        withBytes("canary.yellow") { route in
            subscriber.send {
                FrameWriter.requestStream(
                    stream: 1, initialN: Wire.maxU31, metadata: route, data: route.slice(0..<0), fragment: 0, into: &$0)
            }
        }
    }

    /// Checks that a message is delivered and that its acknowledgement returns.
    func sing() {
        guard broker.isUndisturbed else { return }
        sequence += 1
        let stream = UInt32(2 * sequence + 1)
        withBytes("canary.yellow") { route in
            withBytes("tweet \(sequence)") { text in
                publisher.send {
                    FrameWriter.requestResponse(stream: stream, metadata: route, data: text, fragment: 0, into: &$0)
                }
            }
        }
        listen(stream)
        for peer in [subscriber, publisher] {
            // A keepalive.
            peer.send { FrameWriter.keepalive(respond: false, position: 0, data: $0.readable.slice(0..<0), into: &$0) }
        }
    }

    private func listen(_ stream: UInt32) {
        mustHold(!subscriber.isClosed && !publisher.isClosed, "an innocent connection was closed")
        guard subscriber.frames.count == 1, case .payload(true, false, let content) = subscriber.frames[0].body else {
            return report("the undisturbed subscriber got \(subscriber.frames.map(\.body))")
        }
        let text = String(decoding: subscriber.frames[0].bytes[content.data], as: UTF8.self)
        mustHold(text == "tweet \(sequence)", "the undisturbed subscriber got \(text)")
        guard publisher.frames.count == 1, case .payload(true, true, let answer) = publisher.frames[0].body else {
            return report("the undisturbed publisher got \(publisher.frames.map(\.body))")
        }
        let reported = String(decoding: publisher.frames[0].bytes[answer.data], as: UTF8.self)
        mustHold(
            reported == "\(sequence)" && publisher.frames[0].header.stream == stream,
            "the acknowledgement is \(reported)")
        subscriber.frames = []
        publisher.frames = []
    }
}
