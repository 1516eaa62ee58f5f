// ShardLoop+Lingering: connections that the engine is done with, until their peers are.

import EventLoop
import TLS

extension ShardLoop {
    /// Sends the end of a connection whose peer may still be sending.
    /// - Parameter tls: what it was written by, if that was not in the clear.
    func linger(_ fd: Int32, _ tls: TLSStream? = nil) {
        let isHeld = tls?.isHeld == true
        if !isHeld { end(fd, tls) }
        let number = lingering.append(
            fd, tls: isHeld ? tls : nil, deadline: now.monotonic + context.limits.closeTime)
        watchLingering(fd, number, isHeld ? [.read, .write] : .read)
    }

    private func end(_ fd: Int32, _ tls: TLSStream?) {
        tls?.end()
        Socket.shutdownWrite(fd)
    }

    private func watchLingering(_ fd: Int32, _ number: UInt32, _ interest: Interest) {
        do throws(SystemError) {
            try poller.modify(fd, token: Token.lingering(number).rawValue, interest: interest)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    func discard(_ number: UInt32, _ ready: Readiness) {
        guard let fd = lingering.socket(number) else { return }
        if let tls = lingering.stream(number), ready.contains(.writable) {
            switch tls.flush() {
            case .bytes:
                end(fd, tls)
                lingering.forgetStream(number)
                watchLingering(fd, number, .read)
            case .blocked: break
            case .failed: return lingering.close(number)
            }
        }
        switch Socket.read(fd, into: buffer) {
        case .bytes, .blocked: break
        case .end, .failed: lingering.close(number)
        }
    }
}
