// HTTP1Stream: streams over HTTP/1.1, in which the driver's library is not involved. Head and body are written to the
// connection's output, as HTTP/2's frames are, and the connection ends with the stream. What the client sends in the
// meantime is discarded.
//
//     HTTP/1.1 200 OK … ( length CR LF bytes CR LF ) … 0 CR LF CR LF

import Bytes
import HTTP2

extension HTTP1Inputs {
    /// Begins the stream of a connection whose streaming response was fetched and whose socket the library has given
    /// up: from now on `gather` returns what to write, and `receive` takes what arrives.
    /// - Parameter rest: unsent bytes of earlier responses.
    func beginStream(on id: ConnectionID, behind rest: UnsafeRawBufferPointer, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)), let answer = current.http1.beginStream() else {
            return
        }
        let connection = current.connection
        peers.scratch.removeAll()
        peers.scratch.append(rest)
        answer.appendHead(isChunked: current.http1.isChunked, into: &peers.scratch)
        connection.output.reserve(peers.scratch.count).copyMemory(from: peers.scratch.readable)
        peers.scratch.removeAll()
        peers.scratch.shrink(above: 4096)
        connections.charge(connection)
        connections.flush(connection)
    }

    /// Discards bytes that arrived after the request of a stream.
    func discard(_ count: Int, _ connection: Connection, _ http1: HTTP1Transport, now: Instant) {
        heard(count, on: connection)
        http1.surplus += count
        guard http1.surplus > Limits.http1Surplus else { return }
        connectionEnds.close(connection, reason: "it sent too much data after its request for a stream", now: now)
    }
}

extension HTTPConnection {
    /// Moves available bytes of a stream's body into the output, at most about `limit` bytes.
    func produce(_ http1: HTTP1Transport, into connection: Connection, atMost limit: Int) {
        guard http1.isStreaming, let exchange = exchange(at: http1.handle) else { return }
        let count = Swift.min(exchange.body.count, limit)
        if count > 0 {
            if http1.isChunked { ChunkedCoding.withHead(count) { connection.output.write($0) } }
            move(count, of: exchange, into: connection)
            if http1.isChunked { connection.output.write(ChunkedCoding.end) }
        }
        guard http1.isComplete, exchange.body.isEmpty else { return }
        if http1.isChunked { connection.output.write(ChunkedCoding.last) }
        http1.spend()
    }
}

extension HTTP1Answer {
    fileprivate func appendHead(isChunked: Bool, into out: inout ByteBuffer) {
        // Only a subscription that has begun is a stream.
        out.append("HTTP/1.1 200 OK\r\n")
        for (name, value) in headers {
            out.append(name)
            out.append(": ")
            out.append(value)
            out.append("\r\n")
        }
        if isChunked { out.append("transfer-encoding: chunked\r\n") }
        out.append("connection: close\r\n\r\n")
    }
}

extension Output {
    fileprivate mutating func write(_ bytes: UnsafeRawBufferPointer) {
        reserve(bytes.count).copyMemory(from: bytes)
    }

    fileprivate mutating func write(_ text: StaticString) {
        write(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

/// RFC 9112, 7.1.
private enum ChunkedCoding {
    static let end: StaticString = "\r\n"
    static let last: StaticString = "0\r\n\r\n"
    /// The most digits of a length, and its line end.
    private static let longest = 18

    /// Calls `body` with the line ahead of a chunk of `count` bytes, at least one.
    static func withHead(_ count: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        withUnsafeTemporaryAllocation(byteCount: longest, alignment: 1) { space in
            space[longest - 2] = UInt8(ascii: "\r")
            space[longest - 1] = UInt8(ascii: "\n")
            var rest = count
            var first = longest - 2
            repeat {
                first -= 1
                let digit = UInt8(truncatingIfNeeded: rest & 15)
                space[first] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
                rest >>= 4
            } while rest > 0
            body(UnsafeRawBufferPointer(rebasing: space[first...]))
        }
    }
}
