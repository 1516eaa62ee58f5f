// LingerQueue+Sockets: what a loop does with sockets that linger: their end is sent, and what still comes is thrown
// away.

import EventLoop
import TLS

extension LingerQueue {
    /// Sends the end of a connection whose peer may still be sending. `poller` watches its socket already.
    /// - Parameters:
    ///   - tls: what it was written by, if that was not in the clear.
    ///   - deadline: when the peer's time is over, on the monotonic clock.
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

    /// A socket is ready for something.
    /// - Parameter scratch: its content is lost.
    mutating func advance(
        _ number: UInt32, _ ready: Readiness, scratch: UnsafeMutableRawBufferPointer, _ poller: borrowing Poller
    ) {
        guard let fd = socket(number) else { return }
        if let tls = stream(number), ready.contains(.writable) {
            switch tls.flush() {
            case .bytes:
                LingerQueue.end(fd, tls)
                forgetStream(number)
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
