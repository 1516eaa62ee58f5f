// A session behind a socket, for independent clients: one thread, connections in sequence or in parallel.

import Foundation
import Glibc

@testable import HTTP2

/// Responds to GET /N with N bytes of body and a trailer, and to any POST with the number of bytes received.
final class LoopbackServer: @unchecked Sendable {
    private final class Client {
        let socket: Int32
        var session = ServerSession()
        var sink = LoopbackSink()
        var posted: [UInt32: Int] = [:]
        init(_ socket: Int32) { self.socket = socket }
    }

    let port: UInt16
    private let listener: Int32
    private let pipe: (read: Int32, write: Int32)
    private let done = DispatchSemaphore(value: 0)
    private var clients: [Client] = []
    /// To be read only after the server has stopped.
    private(set) var fatal: [HTTP2Error] = []
    private(set) var requests = 0

    init() {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (listener, length) = (listener, size)
        port = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                guard bind(listener, $0, length) == 0, listen(listener, 64) == 0 else { return }
                _ = getsockname(listener, $0, &size)
            }
            return UInt16(bigEndian: $0.pointee.sin_port)
        }
        var ends: [Int32] = [0, 0]
        _ = Glibc.pipe(&ends)
        pipe = (ends[0], ends[1])
        Thread { [self] in
            run()
            done.signal()
        }.start()
    }

    func stop() {
        close(pipe.write)
        done.wait()
        close(listener)
        close(pipe.read)
    }

    private func run() {
        while true {
            var waits = [pollfd(fd: pipe.read, events: 0, revents: 0), pollfd(fd: listener, events: 1, revents: 0)]
            for client in clients {
                waits.append(pollfd(fd: client.socket, events: client.sink.output.isEmpty ? 1 : 5, revents: 0))
            }
            guard poll(&waits, nfds_t(waits.count), 10_000) > 0, waits[0].revents == 0 else { break }
            if waits[1].revents != 0 { clients.append(Client(accept(listener, nil, nil))) }
            for (client, wait) in zip(clients, waits.dropFirst(2)) where wait.revents != 0 {
                guard serve(client) else {
                    close(client.socket)
                    clients.removeAll { $0 === client }
                    continue
                }
            }
        }
        for client in clients { close(client.socket) }
    }

    /// Reads, responds, writes; false when the connection has ended.
    private func serve(_ client: Client) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(client.socket, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        if count == 0 || (count < 0 && errno != EAGAIN) { return false }
        buffer.withUnsafeBytes {
            client.session.feed(UnsafeRawBufferPointer(rebasing: $0[..<max(0, count)]), now: now())
            while let event = client.session.next() { answer(event, client) }
        }
        while true {
            if client.sink.output.isEmpty {
                client.session.produce(into: &client.sink, atMost: 100_000)
                while let event = client.session.next() { answer(event, client) }
            }
            let output = client.sink.output
            if output.isEmpty { return !client.session.isFinished }
            let sent = send(client.socket, output, output.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
            if sent < 0 { return errno == EAGAIN }
            client.sink.output.removeFirst(sent)
        }
    }

    private func answer(_ event: HTTPEvent, _ client: Client) {
        switch event {
        case .request(let stream, let head, let complete):
            requests += 1
            guard head.method.elementsEqual("GET".utf8) else {
                client.posted[stream] = 0
                if complete { answerPost(stream, client) }
                return
            }
            let length = Int(String(decoding: head.path.dropFirst(), as: UTF8.self)) ?? 0
            client.session.respond(stream, status: 200, fields: ["content-type": "text/plain"], complete: false)
            client.sink.left[stream] = length
            client.session.bodyAvailable(stream)
            client.session.finish(stream, trailers: ["x-length": "\(length)"])
        case .data(let stream, _, let bytes):
            client.posted[stream, default: 0] += bytes.count
            client.session.consume(stream, bytes.count)
        case .complete(let stream, _, _): answerPost(stream, client)
        case .reset(let stream, _, _), .closed(let stream, _):
            client.sink.left[stream] = nil
            client.posted[stream] = nil
        case .fatal(let error): fatal.append(error)
        case .writable, .pong, .worked, .closedByPeer, .response, .closing: break
        }
    }

    private func answerPost(_ stream: UInt32, _ client: Client) {
        let fields: HTTPFields = ["x-posted": "\(client.posted[stream] ?? 0)"]
        client.session.respond(stream, status: 200, fields: fields, complete: true)
    }

    private func now() -> UInt64 { DispatchTime.now().uptimeNanoseconds }
}

/// Bodies of the letter x.
struct LoopbackSink: HTTPSink {
    var output: [UInt8] = []
    var left: [UInt32: Int] = [:]

    mutating func write(_ bytes: UnsafeRawBufferPointer) { output += bytes }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        let waiting = left[stream] ?? 0
        return (min(waiting, atMost), waiting <= atMost)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        output += head
        output += [UInt8](repeating: UInt8(ascii: "x"), count: count)
        left[stream]! -= count
    }
}
