// AdminDriver: connects the admin loop with libmicrohttpd. It parses requests into calls, and fetches answers when the
// loop has them.

import CMicroHTTPD
import Core
import EventLoop
import HTTP2

/// A connection to the admin listener and its current request.
final class AdminClient {
    let micro: MicroConnection
    /// Address and port of the client.
    let peer: String
    /// The verified TLS client certificate.
    let certificate: PeerCertificate?
    /// When the connection was last active, on the monotonic clock.
    var lastSign: UInt64
    /// The current request; nil between requests.
    var call: Result<AdminCall, Problem>?
    /// Host and port from the request.
    var authority: String?
    /// The `authorization` header.
    var authorization: String?
    /// The `authorization` with which the connection's login was counted.
    var counted: String?
    /// The job that the connection waits for.
    var job: UInt64?
    /// Whether the request comes from a script, which handles a refusal itself.
    var isScript = false
    var isAmbiguous = false
    var bodyCount = 0
    private(set) var answer: AdminAnswer?
    private var written = 0

    init(_ micro: MicroConnection, peer: String, certificate: PeerCertificate?, now: UInt64) {
        self.micro = micro
        self.peer = peer
        self.certificate = certificate
        lastSign = now
    }

    func set(_ answer: AdminAnswer) {
        self.answer = isScript ? answer.withoutDialog : answer
        written = 0
    }

    /// The next bytes of the answer.
    func take(into buffer: UnsafeMutableRawBufferPointer) -> HTTP1Piece {
        guard let body = answer?.body, written < body.count else { return .end }
        let count = min(buffer.count, body.count - written)
        body.withUnsafeBytes {
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[written..<written + count]))
        }
        written += count
        return .bytes(count)
    }

    func reset(now: UInt64) {
        call = nil
        job = nil
        answer = nil
        authority = nil
        authorization = nil
        isScript = false
        isAmbiguous = false
        bodyCount = 0
        lastSign = now
    }
}

final class AdminDriver: MicroDaemon {
    private unowned let loop: AdminLoop

    init?(loop: AdminLoop) {
        self.loop = loop
        super.init(limit: AdminLimits.connections)
    }

    override func begin(_ connection: MicroConnection, method: String, version: String, isClean: Bool) -> Verdict {
        guard let client = loop.client(connection) else { return .end }
        let target = connection.target
        var head = HTTP1Request(method: method, target: target, version: version, limits: loop.context.limits)
        var fetchSite: String?
        var requestedWith: String?
        connection.forEachField { name, value in
            head.add(name, value)
            switch name.count > 16 ? "" : String(decoding: name, as: UTF8.self).lowercased() {
            case "sec-fetch-site": fetchSite = String(decoding: value, as: UTF8.self)
            case "x-requested-with": requestedWith = String(decoding: value, as: UTF8.self)
            default: break
            }
        }
        if !isClean { head.isUnclear() }
        client.lastSign = loop.now
        client.isScript = requestedWith == "XMLHttpRequest"
        client.isAmbiguous = head.isAmbiguous
        client.authority = head.plain.authority
        client.authorization = head.plain.authorization
        client.call = call(head, AdminHead(plain: head.plain, fetchSite: fetchSite))
        connection.stage = head.hasBody ? .uploading : .waiting
        // After an ambiguous head, the library discards further input and closes the connection.
        guard head.isAmbiguous else { return .goOn }
        return answer(connection)
    }

    private func call(_ request: HTTP1Request, _ head: AdminHead) -> Result<AdminCall, Problem> {
        do throws(Problem) {
            if let problem = request.problem { throw problem }
            let call = try AdminCall(head.plain)
            try loop.settings.guarding.check(head, for: call)
            return .success(call)
        } catch {
            return .failure(error)
        }
    }

    override func refuseLength(of connection: MicroConnection) {
        let text = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        // A socket that was never written to accepts all of it, unless its client has disconnected.
        _ = Array(text.utf8).withUnsafeBytes { Socket.write(connection.fd, $0) }
        Socket.shutdownWrite(connection.fd)
        connection.stage = .discarding
    }

    override func take(_ bytes: UnsafeRawBufferPointer, on connection: MicroConnection) -> Verdict {
        guard let client = loop.client(connection) else { return .end }
        client.bodyCount += bytes.count
        if client.bodyCount > AdminLimits.body { drop(connection) }
        return .goOn
    }

    override func answer(_ connection: MicroConnection) -> Verdict {
        guard let client = loop.client(connection), client.call != nil else { return .end }
        connection.stage = .waiting
        if client.answer == nil, client.job == nil { loop.begin(client) }
        guard let answer = client.answer else { return .suspend }
        return connection.answer(answer.head(isLast: client.isAmbiguous, wall: Clock.wall())) ? .goOn : .end
    }

    override func read(_ connection: MicroConnection, into buffer: UnsafeMutableRawBufferPointer) -> HTTP1Piece {
        guard let client = loop.client(connection) else { return .gone }
        client.lastSign = loop.now
        return client.take(into: buffer)
    }

    override func over(_ connection: MicroConnection, isDone: Bool) {
        guard let client = loop.client(connection) else { return }
        loop.discard(client)
        client.reset(now: loop.now)
    }

    override func closes(_ connection: MicroConnection) { loop.remove(connection) }
}
