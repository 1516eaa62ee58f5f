// NamedThread: a kernel thread that `top -H` and a debugger show by name.

import CLinux
import Glibc

/// A running thread, which must be joined or detached once.
public struct NamedThread: Sendable {
    private let handle: pthread_t

    /// Starts `body` on a new thread. The new thread inherits the starting thread's blocked signals.
    /// - Parameter name: at most 15 bytes are shown.
    public static func start(
        _ name: String, _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) -> NamedThread {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var handle = pthread_t()
        let failure = pthread_create(&handle, nil, runThread, start.toOpaque())
        if failure != 0 {
            start.release()
            throw SystemError("cannot start thread \(name)", code: failure)
        }
        return NamedThread(handle: handle)
    }

    /// Waits until the thread has ended.
    public func join() {
        pthread_join(handle, nil)
    }

    /// Detaches the thread, which then ends without a join.
    public func detach() {
        pthread_detach(handle)
    }
}

private final class Start {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

/// A global function: a closure written inside a main-actor context would check for the main thread and trap.
private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
    _ = fb_name_thread(String(decoding: start.name.utf8.prefix(15), as: UTF8.self))
    start.body()
    return nil
}
