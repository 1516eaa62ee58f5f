// TestClient: the other end of a broker's connection, with blocking calls.

import EventLoop
import Glibc
import Testing

@testable import Server

let patience: UInt64 = 20_000_000_000

/// One end of a TCP connection, with blocking calls and a time limit on every wait.
final class TestClient {
    private(set) var fd: Int32

    init(port: UInt16) throws {
        fd = try Socket.connect(to: Endpoint(host: "127.0.0.1", port: port), timeout: patience)
    }

    deinit { disconnect() }

    func disconnect() {
        if fd >= 0 { close(fd) }
        fd = -1
    }

    /// Closes the socket in such a way that the kernel sends a reset.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        disconnect()
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    /// Writes everything; for large data the peer must read in the meantime.
    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            switch bytes[sent...].withUnsafeBytes({ Socket.write(fd, $0) }) {
            case .bytes(let count): sent += count
            case .blocked: try wait(for: .write)
            case .failed(let error): throw SystemError("cannot send", code: error)
            }
        }
    }

    /// Writes as much as the kernel accepts at once; returns how much that was.
    func sendWhatFits(_ bytes: [UInt8]) -> Int {
        var sent = 0
        while sent < bytes.count, case .bytes(let count) = bytes[sent...].withUnsafeBytes({ Socket.write(fd, $0) }) {
            sent += count
        }
        return sent
    }

    /// The next `count` bytes.
    func receive(_ count: Int) throws -> [UInt8] {
        var received: [UInt8] = []
        while received.count < count, let more = try receiveSome(count - received.count) { received += more }
        return received
    }

    func receiveText(_ count: Int) throws -> String { String(decoding: try receive(count), as: UTF8.self) }

    /// Everything up to the peer's end of stream. A reset is an error.
    func receiveAll() throws -> [UInt8] {
        var received: [UInt8] = []
        while let more = try receiveSome(1 << 20) { received += more }
        return received
    }

    private func receiveSome(_ limit: Int) throws -> [UInt8]? {
        while true {
            var bytes = [UInt8](repeating: 0, count: limit)
            switch bytes.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            case .bytes(let count): return Array(bytes[..<count])
            case .end: return nil
            case .blocked: try wait(for: .read)
            case .failed(let error): throw SystemError("cannot receive", code: error)
            }
        }
    }

    private func wait(for interest: Interest) throws {
        var poller = try Poller()
        try poller.add(fd, token: 0, interest: interest)
        if try poller.wait(timeout: patience) == 0 { throw SystemError("waited too long", cause: "nothing came") }
    }
}

/// A descriptor that accepts every byte, for logs that are not examined.
func silentLog() throws -> Log { try Log(level: .error, format: .text, descriptor: open("/dev/null", O_WRONLY)) }
