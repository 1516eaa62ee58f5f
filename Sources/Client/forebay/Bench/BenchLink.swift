// BenchLink: one of the many connections of `bench`, in their shared poller.

import Client
import EventLoop

struct BenchLink: ~Copyable {
    var link: Link
    private let token: UInt64
    /// Whether the poller reports when the socket is writable.
    private var watchesWriting = false

    init(to address: BrokerAddress, token: UInt64, _ poller: inout Poller) throws {
        var link = try Link(to: address)
        // The broker waits only a few seconds for the set-up, and thousands more may be connected in the meantime.
        link.flush()
        try poller.add(link.socket, token: token, interest: .read)
        self.link = link
        self.token = token
    }

    /// Writes what the socket accepts; if that is not everything, the poller reports when to continue.
    mutating func flush(_ poller: inout Poller) throws(SystemError) {
        link.flush()
        guard link.wantsToWrite != watchesWriting else { return }
        watchesWriting.toggle()
        try poller.modify(link.socket, token: token, interest: watchesWriting ? [.read, .write] : .read)
    }
}
