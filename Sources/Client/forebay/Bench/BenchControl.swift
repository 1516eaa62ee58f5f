// BenchControl: the connection on which `bench` publishes its marks and deletes its topic.

import Bytes
import Client
import EventLoop

struct BenchControl: ~Copyable {
    private var connection: BenchLink
    /// The request that has not been answered yet.
    private var pending: StreamID?

    init(_ connection: consuming BenchLink) { self.connection = connection }

    var isIdle: Bool { pending == nil }

    /// Publishes the mark of a round, acknowledged: the broker parks it until there is room.
    mutating func publishMark(_ round: UInt64, _ settings: BenchSettings, _ poller: inout Poller) throws {
        let mark = BenchMessage.mark(round, settings)
        pending = try connection.link.connection.publish(settings.topic, mark.readable)
        try connection.flush(&poller)
    }

    mutating func deleteTopic(_ settings: BenchSettings, _ poller: inout Poller) throws {
        pending = try connection.link.connection.call(.deleteTopic(settings.topic))
        try connection.flush(&poller)
    }

    /// Reads once and handles responses; called when the socket is ready.
    mutating func serve(_ poller: inout Poller) throws {
        _ = try connection.link.read(atMost: 16 << 10, now: Clock.monotonic())
        while let event = try connection.link.next() {
            switch event {
            case .completed(pending, _, _): pending = nil
            case .failed(pending, let error):
                pending = nil
                throw error
            case .closing(let why): throw ClientError(.connectionError, why)
            default: break
            }
        }
        try connection.flush(&poller)
    }

    /// Sends a KEEPALIVE if one is due, and gives up if the broker is silent.
    mutating func keepAlive(_ now: UInt64, _ poller: inout Poller) throws {
        try connection.link.connection.fire(now: now)
        try connection.flush(&poller)
    }
}
