// UpstreamLink: the node's connection to NATS. It connects, and connects again to another server when the connection
// ends, with the waits that `NATSServers` determines.
//
//     waiting ──its time has come──▶ connecting ──opened──▶ open ──ready──▶ ready
//        ▲                               │                    │               │
//        └───────────────────────────────┴────────────────────┴── lost ───────┘

import Bytes
import Core
import NATS

/// What a link reports. `NATSMessage` is valid during the call.
protocol UpstreamLinkDelegate: AnyObject {
    func linkBecameReady(now: UInt64)
    func linkWasLost(_ error: NATSError, now: UInt64)
    func received(_ message: NATSMessage, now: UInt64)
    func flushed(_ number: UInt64, now: UInt64)
    func refused(_ error: NATSServerError, now: UInt64)
}

final class UpstreamLink {
    private enum State {
        case waiting
        case connecting
        case open
    }

    private var state = State.waiting
    private var servers: NATSServers
    private let options: NATSOptions
    private var random: RandomSource
    /// The server to connect to, or connected to, and when to begin.
    private var attempt: NATSServers.Attempt
    private var connection: NATSConnection?
    private(set) var actions: [UpstreamAction] = []
    unowned(unsafe) var delegate: UpstreamLinkDelegate!

    init(_ servers: NATSServers, _ options: NATSOptions, seed: UInt64, now: UInt64) {
        self.servers = servers
        self.options = options
        random = RandomSource(seed: seed)
        self.servers.shuffle(using: &random)
        attempt = self.servers.next(now: now, random: random.next())
    }

    /// Whether requests can be written.
    var isReady: Bool { connection?.isReady ?? false }
    /// The server of the current or next attempt.
    var server: NATSServerAddress { attempt.server }
    /// What the server said about itself; nil unless connected.
    var info: NATSInfo? { connection?.info }

    func takeActions() -> [UpstreamAction] {
        defer { actions.removeAll(keepingCapacity: true) }
        return actions
    }

    // Input

    /// When to call `tick`.
    var deadline: UInt64? {
        switch state {
        case .waiting: attempt.time
        // The driver reports when it has failed.
        case .connecting: nil
        case .open: connection?.deadline
        }
    }

    func tick(now: UInt64) {
        switch state {
        case .waiting:
            guard attempt.time <= now else { return }
            state = .connecting
            actions.append(.connect(attempt.server))
        case .connecting: break
        case .open:
            connection?.tick(now: now)
            handleEvents(now: now)
        }
    }

    /// The socket is connected.
    func opened(now: UInt64) {
        guard state == .connecting else { return }
        state = .open
        var options = options
        if case .none = attempt.server.credentials {} else { options.credentials = attempt.server.credentials }
        if attempt.server.requiresTLS, options.tls == .off || options.tls == .ifOffered { options.tls = .required }
        connection = NATSConnection(options)
        connection?.opened(now: now)
        handleEvents(now: now)
    }

    func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        connection?.received(bytes, now: now)
        handleEvents(now: now)
    }

    func secured(now: UInt64) {
        connection?.secured(now: now)
        handleEvents(now: now)
    }

    /// The socket is closed, or could not be connected.
    func closed(_ reason: String, now: UInt64) {
        guard state != .waiting else { return }
        wait(now: now)
        delegate.linkWasLost(NATSError(.unavailable, reason, scope: .connection), now: now)
    }

    private func handleEvents(now: UInt64) {
        while let event = connection?.next() {
            switch event {
            case .startTLS: actions.append(.startTLS(attempt.server))
            case .ready:
                servers.connected(now: now)
                if let urls = connection?.info?.urls { servers.discovered(urls) }
                delegate.linkBecameReady(now: now)
            case .message(let message): delegate.received(message, now: now)
            case .flushed(let number): delegate.flushed(number, now: now)
            case .info(let mustMove):
                if let urls = connection?.info?.urls { servers.discovered(urls) }
                guard mustMove else { continue }
                actions.append(.close)
                return closed("The NATS server is about to shut down.", now: now)
            case .refused(let error): delegate.refused(error, now: now)
            case .failed(let error, _):
                actions.append(.close)
                wait(now: now)
                return delegate.linkWasLost(error, now: now)
            }
        }
    }

    private func wait(now: UInt64) {
        connection = nil
        state = .waiting
        attempt = servers.next(now: now, random: random.next())
    }

    // Output

    /// The bytes to send. Valid until the next call.
    var pending: UnsafeRawBufferPointer { connection?.pending ?? UnsafeRawBufferPointer(start: nil, count: 0) }
    func sent(_ count: Int) { connection?.sent(count) }
    /// Bytes that can be written now.
    var room: Int { connection?.room ?? 0 }

    /// Publishes a message. Returns false if it was not written, because the link is not ready or has no room.
    /// - Throws: if the message can never be published.
    @discardableResult
    func publish(
        _ subject: String, reply: String?, _ headers: NATSHeaderBlock?, _ payload: UnsafeRawBufferPointer
    ) throws(NATSError) -> Bool {
        guard isReady else { return false }
        do throws(NATSError) {
            try connection?.publish(subject, reply: reply, headers: headers, payload: payload)
            return true
        } catch {
            if error.word == .limit { return false }
            throw error
        }
    }

    /// Returns false if the request was not written.
    func subscribe(_ filter: String, _ subscription: UInt64) -> Bool {
        (try? connection?.subscribe(filter, subscription: subscription)) != nil
    }

    func unsubscribe(_ subscription: UInt64) { try? connection?.unsubscribe(subscription) }

    /// The number that `flushed` reports; nil if the request was not written.
    func flush() -> UInt64? { try? connection?.flush() }
}

/// What the driver has to do with the link's socket.
public enum UpstreamAction: Sendable {
    /// Connect to a server, then call `opened`, or `closed` if that fails.
    case connect(NATSServerAddress)
    /// Make the TLS handshake, then call `secured`, or `closed` if that fails.
    case startTLS(NATSServerAddress)
    /// Close the socket, and do not call `closed` for it.
    case close
}
