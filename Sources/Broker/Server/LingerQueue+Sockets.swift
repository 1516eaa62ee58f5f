// LingerQueue+Sockets: how a loop handles lingering sockets: it closes their sending side, and discards what they still
// receive.

import EventLoop
import TLS

extension LingerQueue {
    /// Closes the sending side of a connection whose peer may still be sending. `poller` already watches its socket.
    /// - Parameters:
    ///   - tls: the connection's TLS stream, if any.
    ///   - deadline: the time by which the socket is closed, on the monotonic clock.
    mutating func linger(_ fd: Int32, _ tls: TLSStream?, until deadline: UInt64, _ poller: borrowing Poller) {
        let isHeld = tls?.isHeld == true
        if !isHeld { LingerQueue.end(fd, tls) }
        let number = append(fd, tls: isHeld ? tls : nil, deadline: deadline)
        LingerQueue.watch(fd, number, isHeld ? [.read, .write] : .read, poller)
    }

    private static func end(_ fd: Int32, _ tls: TLSStream?) {
        tls?.end()
        Socket.shutdownWrite(fd)
    }

    private static func watch(_ fd: Int32, _ number: UInt32, _ interest: Interest, _ poller: borrowing Poller) {
        do throws(SystemError) {
            try poller.modify(fd, token: Token.lingering(number).rawValue, interest: interest)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Handles the readiness of a socket.
    /// - Parameter scratch: overwritten.
    mutating func advance(
        _ number: UInt32, _ ready: Readiness, scratch: UnsafeMutableRawBufferPointer, _ poller: borrowing Poller
    ) {
        guard let fd = socket(number) else { return }
        if let tls = stream(number), ready.contains(.writable) {
            switch tls.flush() {
            case .bytes:
                LingerQueue.end(fd, tls)
                removeStream(number)
                LingerQueue.watch(fd, number, .read, poller)
            case .blocked: break
            case .failed: return close(number)
            }
        }
        switch Socket.read(fd, into: scratch) {
        case .bytes, .blocked: break
        case .end, .failed: close(number)
        }
    }
}
