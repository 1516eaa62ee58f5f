// PassedSockets: listening sockets that another process opened for this one, as systemd's socket units do
// (sd_listen_fds(3)): descriptors from 3 up, their number in LISTEN_FDS, their names in LISTEN_FDNAMES, and the process
// that they are for in LISTEN_PID.

import CLinux
import Glibc

/// The sockets that were passed, in order.
public struct PassedSockets: Equatable, Sendable {
    /// A descriptor and its name.
    public struct Entry: Equatable, Sendable {
        public var socket: Int32
        public var name: String

        public init(socket: Int32, name: String) {
            self.socket = socket
            self.name = name
        }
    }

    /// The most sockets accepted; more are an error.
    public static let most = 64
    static let first: Int32 = 3
    /// The name of sockets that were passed without names.
    static let unnamed = "unknown"

    public var entries: [Entry] = []

    public init() {}

    /// Reads the variables of systemd's protocol. If there are none, or they are for another process, there are no
    /// sockets.
    ///
    /// - Parameter variable: the value of an environment variable.
    public init(process: Int32, variable: (String) -> String?) throws(SystemError) {
        guard let pid = variable("LISTEN_PID"), let text = variable("LISTEN_FDS"), Int32(pid) == process else { return }
        guard let count = Int32(text), (0...Int32(PassedSockets.most)).contains(count) else {
            throw SystemError(
                "cannot take the sockets that were passed",
                cause: "LISTEN_FDS is \"\(text)\", not a number from 0 to \(PassedSockets.most)")
        }
        let names =
            variable("LISTEN_FDNAMES").map { $0.split(separator: ":", omittingEmptySubsequences: false) } ?? []
        for place in 0..<Int(count) {
            let name = place < names.count ? String(names[place]) : PassedSockets.unnamed
            entries.append(Entry(socket: PassedSockets.first + Int32(place), name: name))
        }
    }

    /// The sockets passed to this process, made ready for a poller. Each must be a listening TCP socket.
    public static func take() throws(SystemError) -> PassedSockets {
        let passed = try PassedSockets(process: getpid()) { name in getenv(name).map { String(cString: $0) } }
        for entry in passed.entries {
            let result = fb_adopt_listener(entry.socket)
            if result == -EINVAL {
                throw SystemError(
                    "cannot take the socket \"\(entry.name)\" that was passed as descriptor \(entry.socket)",
                    cause: "it is not a listening TCP socket (ListenStream= with an address and port, Accept=no)")
            }
            if result < 0 {
                throw SystemError("cannot take the socket that was passed as descriptor \(entry.socket)", code: -result)
            }
        }
        return passed
    }
}
