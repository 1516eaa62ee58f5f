// Connector: opens connections one by one and waits until each is in effect. Not part of any measurement.

import EventLoop
import Glibc

enum Connector {
    /// How long a broker may take to answer, in nanoseconds.
    private static let patience: UInt64 = 10_000_000_000

    /// Connects, sends the greeting and waits for its sign. The socket is non-blocking.
    static func open(port: UInt16, _ greeting: Greeting) throws(BenchError) -> Int32 {
        let fd: Int32
        do throws(SystemError) {
            fd = try Socket.connect(to: Endpoint(host: "127.0.0.1", port: port), timeout: patience)
        } catch {
            throw BenchError(error.description)
        }
        do throws(BenchError) {
            try send(greeting.bytes + greeting.question, on: fd)
            try wait(for: greeting.sign, on: fd)
        } catch {
            close(fd)
            throw error
        }
        return fd
    }

    /// Sends a request on a new connection; returns all that is received until `isWhole`, or nil if that takes longer
    /// than a second.
    static func ask(port: UInt16, _ request: [UInt8], isWhole: (String) -> Bool) throws(BenchError) -> String? {
        let fd = try open(port: port, Greeting(request))
        defer { Glibc.close(fd) }
        let deadline = Clock.monotonic() + 1_000_000_000
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while Clock.monotonic() < deadline {
            switch buffer.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            case .bytes(let count):
                answer += buffer[..<count]
                let text = String(decoding: answer, as: UTF8.self)
                if isWhole(text) { return text }
            case .blocked:
                var request = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
                poll(&request, 1, 100)
            case .end, .failed: return nil
            }
        }
        return nil
    }

    static func send(_ bytes: [UInt8], on fd: Int32) throws(BenchError) {
        let deadline = Clock.monotonic() + patience
        var sent = 0
        while sent < bytes.count {
            let result = bytes[sent...].withUnsafeBytes { Socket.write(fd, $0) }
            switch result {
            case .bytes(let count): sent += count
            case .blocked: try wait(fd, for: POLLOUT, until: deadline)
            case .failed(let error): throw BenchError("a connection broke: \(SystemError.text(of: error))")
            }
        }
    }

    /// Reads and discards up to `count` bytes, for at most `patience` nanoseconds; returns how many were received.
    static func receive(_ count: Int, on fd: Int32, for patience: UInt64) throws(BenchError) -> Int {
        let deadline = Clock.monotonic() + patience
        var received = 0
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while received < count, Clock.monotonic() < deadline {
            switch buffer.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            case .bytes(let some): received += some
            case .blocked:
                var request = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
                poll(&request, 1, 100)
            case .end: throw BenchError("the broker closed the connection")
            case .failed(let error): throw BenchError("a connection broke: \(SystemError.text(of: error))")
            }
        }
        return received
    }

    /// Reads until the input ends with `sign`.
    static func wait(for sign: [UInt8], on fd: Int32) throws(BenchError) {
        let deadline = Clock.monotonic() + patience
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while answer.count < sign.count || Array(answer.suffix(sign.count)) != sign {
            switch buffer.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            case .bytes(let count): answer += buffer[..<count]
            case .blocked:
                do throws(BenchError) {
                    try wait(fd, for: POLLIN, until: deadline)
                } catch {
                    throw BenchError("\(error); received so far: \(Connector.printable(answer))")
                }
            case .end: throw BenchError("the broker closed the connection after: \(Connector.printable(answer))")
            case .failed(let error): throw BenchError("a connection broke: \(SystemError.text(of: error))")
            }
        }
    }

    private static func wait(_ fd: Int32, for events: Int32, until deadline: UInt64) throws(BenchError) {
        let now = Clock.monotonic()
        guard now < deadline else { throw BenchError("the broker did not answer") }
        var request = pollfd(fd: fd, events: Int16(events), revents: 0)
        poll(&request, 1, Int32((deadline - now) / 1_000_000 + 1))
    }

    static func printable(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.suffix(200).map { (32..<127).contains($0) ? $0 : UInt8(ascii: ".") }, as: UTF8.self)
    }
}
