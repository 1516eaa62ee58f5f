// HTTP1Driver: connects an engine with libmicrohttpd. It passes heads and bodies to the engine, and fetches answers
// when the engine has them. If an answer is a stream, its connection leaves the library.

import CMicroHTTPD
import Core
import EventLoop

final class HTTP1Driver<Shard: Engine>: MicroDaemon {
    private unowned let loop: ShardLoop<Shard>
    private let shard: Shard
    /// Whether this driver is in the loop's list of drivers with work to do.
    private var isListed = false
    /// When this run of the library stops handling bodies, and whether it has handled one.
    private var end: UInt64 = 0
    private var hasHandled = false

    init?(loop: ShardLoop<Shard>, shard: Shard) {
        self.loop = loop
        self.shard = shard
        // Connections are limited when they are accepted, by a limit that may change.
        super.init(limit: .max)
    }

    override func becomesDue() {
        guard !isListed else { return }
        isListed = true
        loop.http1.add(due: self)
    }

    /// Runs the library. The loop has just removed this driver from its list.
    func runListed() {
        end = Clock.monotonic() + Limits.http1Quantum
        hasHandled = false
        run()
        isListed = false
        if isDue { becomesDue() }
    }

    override func proceed(_ connection: MicroConnection) {
        switch connection.stage {
        case .idle, .discarding: break
        case .waiting, .answering: resume(connection)
        case .uploading: answerEarly(connection, atOnce: false)
        }
    }

    override func begin(_ connection: MicroConnection, method: String, version: String, isClean: Bool) -> Verdict {
        var head = HTTP1Request(
            method: method, target: connection.target, version: version, limits: loop.context.limits)
        connection.forEachField { head.add($0, $1) }
        if !isClean { head.isUnclear() }
        connection.stage = head.hasBody ? .uploading : .waiting
        shard.request(head, on: connection.id, now: loop.now)
        // Refuses an ambiguous request, or a body that has not been sent yet. The library discards further input and
        // closes the connection.
        guard head.hasBody || head.isAmbiguous,
            let answer = shard.answer(on: connection.id, atOnce: true, now: loop.now)
        else { return .goOn }
        return give(answer, to: connection)
    }

    private func give(_ answer: HTTP1Answer, to connection: MicroConnection) -> Verdict {
        if answer.isStream { return .release }
        var answer = answer
        if loop.hasManyRelays, loop.connections[connection.id]?.pointee.relay != nil { answer.isLast = true }
        return connection.answer(answer) ? .goOn : .end
    }

    override func refuseLength(of connection: MicroConnection) {
        var head = HTTP1Request(
            method: "POST", target: connection.target, version: "HTTP/1.1", limits: loop.context.limits)
        connection.forEachField { head.add($0, $1) }
        head.hasNoLength()
        shard.request(head, on: connection.id, now: loop.now)
        connection.stage = .uploading
        answerEarly(connection, atOnce: true)
        // The connection ends here even if there was no answer.
        Socket.shutdownWrite(connection.fd)
        connection.stage = .discarding
    }

    override func take(_ bytes: UnsafeRawBufferPointer, on connection: MicroConnection) -> Verdict {
        shard.body(bytes, on: connection.id, now: loop.now)
        return .goOn
    }

    override func answer(_ connection: MicroConnection) -> Verdict {
        // A body may take long. The library asks again when it is run in the next turn.
        if connection.stage == .uploading {
            if hasHandled, Clock.monotonic() >= end { return .goOn }
            hasHandled = true
        }
        connection.stage = .waiting
        shard.requestEnded(on: connection.id, now: loop.now)
        guard let answer = shard.answer(on: connection.id, atOnce: false, now: loop.now) else { return .suspend }
        return give(answer, to: connection)
    }

    override func read(_ connection: MicroConnection, into buffer: UnsafeMutableRawBufferPointer) -> HTTP1Piece {
        shard.take(into: buffer, on: connection.id, now: loop.now)
    }

    override func over(_ connection: MicroConnection, isDone: Bool) {
        shard.exchangeOver(on: connection.id, isLast: !isDone, now: loop.now)
    }

    override func closes(_ connection: MicroConnection) {
        loop.closes(connection)
    }

    override func leaves(_ connection: MicroConnection) {
        loop.takeOver(connection)
    }

    /// Answers a request that is not complete. The library accepts no answer before the end of a request, so it is
    /// written directly, and the connection ends. Nothing has been written before it, and nothing can follow it.
    private func answerEarly(_ connection: MicroConnection, atOnce: Bool) {
        guard let answer = shard.answer(on: connection.id, atOnce: atOnce, now: loop.now) else { return }
        if answer.isStream { return loop.takeOver(connection) }
        var text = "HTTP/1.1 \(answer.status) \(String(cString: MHD_get_reason_phrase_for(UInt32(answer.status))))\r\n"
        for (name, value) in answer.headers { text += "\(name): \(value)\r\n" }
        if let length = answer.length { text += "content-length: \(length)\r\n" }
        text += "connection: close\r\n\r\n"
        var bytes = Array(text.utf8)
        withUnsafeTemporaryAllocation(byteCount: HTTP1Driver.piece, alignment: 1) { buffer in
            while case .bytes(let count) = shard.take(into: buffer, on: connection.id, now: loop.now) {
                bytes.append(contentsOf: buffer[..<count])
            }
        }
        // A refusal is short: a socket that was never written to accepts all of it, unless its client has disconnected.
        _ = bytes.withUnsafeBytes { Socket.write(connection.fd, $0) }
        Socket.shutdownWrite(connection.fd)
        connection.stage = .discarding
        shard.exchangeOver(on: connection.id, isLast: true, now: loop.now)
    }
}
