// SocketPair: two connected TCP sockets.

import EventLoop
import Glibc

/// Two connected TCP sockets on the loopback interface, both non-blocking.
final class SocketPair {
    private(set) var near: Int32
    private(set) var far: Int32

    init() throws {
        let listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        defer { close(listener) }
        let port = Socket.localAddress(listener)!.port
        far = try Socket.connect(to: Endpoint(host: "127.0.0.1", port: port), timeout: 5_000_000_000)
        near = try Socket.accept(listener)!.fd
    }

    deinit {
        closeNear()
        closeFar()
    }

    func closeNear() {
        if near >= 0 { close(near) }
        near = -1
    }

    func closeFar() {
        if far >= 0 { close(far) }
        far = -1
    }

    /// Closes the far end so that the kernel sends a reset.
    func resetFar() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(far, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        closeFar()
    }

    /// Writes from the far end.
    func send(_ text: String) {
        var text = text
        _ = text.withUTF8 { Socket.write(far, UnsafeRawBufferPointer($0)) }
    }

    /// The result of one read of at most `count` bytes at the near end.
    func receive(_ count: Int) -> String? {
        var bytes = [UInt8](repeating: 0, count: count)
        guard case .bytes(let read) = bytes.withUnsafeMutableBytes({ Socket.read(near, into: $0) }) else { return nil }
        return String(decoding: bytes[..<read], as: UTF8.self)
    }
}

/// Waits up to 10 s for one descriptor. Returns false if nothing happened.
func isReady(_ fd: Int32, for interest: Interest) throws -> Bool {
    var poller = try Poller()
    try poller.add(fd, token: 0, interest: interest)
    return try poller.wait(timeout: 10_000_000_000) == 1
}
