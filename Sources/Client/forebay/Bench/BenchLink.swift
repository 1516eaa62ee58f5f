// BenchLink: one of the many connections of `bench`, in the poller they share.

import Client
import EventLoop

struct BenchLink: ~Copyable {
    var link: Link
    private let token: UInt64
    /// The poller tells when the socket takes more.
    private var watchesWriting = false

    init(to address: BrokerAddress, token: UInt64, _ poller: inout Poller) throws {
        var link = try Link(to: address)
        // The broker waits for the set-up for a few seconds only, and thousands more may be connected meanwhile.
        link.flush()
        try poller.add(link.socket, token: token, interest: .read)
        self.link = link
        self.token = token
    }

    /// Writes what the socket takes; should it not take all, the poller will tell when to go on.
    mutating func flush(_ poller: inout Poller) throws(SystemError) {
        link.flush()
        guard link.wantsToWrite != watchesWriting else { return }
        watchesWriting.toggle()
        try poller.modify(link.socket, token: token, interest: watchesWriting ? [.read, .write] : .read)
    }
}
