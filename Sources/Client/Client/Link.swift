// Link: a connection with its socket. A link blocks only while it connects and finishes; otherwise its owner waits, by
// whatever means the owner has.

import Bytes
import EventLoop
import Glibc
import TLS

/// A connected client without an event loop.
public struct Link: ~Copyable {
    public let connection: any ClientConnection
    public let address: BrokerAddress
    /// This side's address, as the broker lists it.
    public let localAddress: String
    /// The socket, only for waiting; it is closed together with the link.
    public let socket: Int32
    /// Whether the broker will send nothing more. If so, do not wait for the socket to become readable.
    public private(set) var hasEnded = false
    private var cannotWrite = false
    /// TLS for the socket, if used.
    private let tls: TLSStream?

    /// The default time limit for connecting, in nanoseconds.
    public static let connectTime: UInt64 = 10_000_000_000
    /// How long `finish` may wait for the socket, in nanoseconds.
    private static let finishTime: UInt64 = 500_000_000

    /// Connects to a broker, within `time` nanoseconds after its name has been looked up. Blocks until the link is
    /// connected or has failed.
    public init(
        to address: BrokerAddress, limits: ClientLimits = ClientLimits(), within time: UInt64 = connectTime
    ) throws(ClientError) {
        try address.credentials?.check()
        (socket, tls) = try Self.connect(address, time)
        self.address = address
        localAddress = Socket.localAddress(socket).map { "\($0)" } ?? "?"
        let now = Clock.monotonic()
        connection =
            switch address.transport {
            case .rsocket: RSocketConnection(credentials: address.credentials, limits: limits, now: now)
            case .http:
                GRPCConnection(
                    authority: "\(address)", isSecure: tls != nil, credentials: address.credentials, limits: limits,
                    now: now)
            }
    }

    private static func connect(
        _ address: BrokerAddress, _ time: UInt64
    ) throws(ClientError) -> (Int32, TLSStream?) {
        let deadline = Clock.monotonic().addingClamped(time)
        let context = try address.tls.map { (settings) throws(ClientError) in try Handshake.context(settings) }
        let socket: Int32
        do throws(SystemError) {
            socket = try Socket.connect(to: Endpoint(host: address.host, port: address.port), timeout: time)
        } catch {
            throw ClientError(.notConnected, sentence(error, address, time))
        }
        do throws(ClientError) {
            return (
                socket,
                try context.map { (context) throws(ClientError) in
                    try Handshake.run(socket, context, address, until: deadline)
                }
            )
        } catch {
            Glibc.close(socket)
            throw error
        }
    }

    private static func sentence(_ error: SystemError, _ address: BrokerAddress, _ time: UInt64) -> String {
        switch error.code {
        case ECONNREFUSED: "Nothing is listening at \(address); check that forebayd is running there."
        case ETIMEDOUT: "\(address) did not answer within \(Duration.nanoseconds(Int64(clamping: time)))."
        case 0: "The host '\(address.host)' could not be resolved: \(error.cause)."
        default: "Could not connect to \(address): \(error.cause)."
        }
    }

    deinit { Glibc.close(socket) }

    /// Whether there is something to write and the socket still accepts it.
    public var wantsToWrite: Bool { (connection.hasOutput || tls?.isHeld == true) && !cannotWrite }

    /// The next event; nil if there is none before the next `read`.
    public mutating func next() throws(ClientError) -> ClientEvent? {
        if let event = try connection.next() { return event }
        // The end of stream arrived with the last bytes, so there is nothing left to wait for.
        if let tls, tls.hasInput { _ = try read(atMost: TLSStream.record, now: Clock.monotonic()) }
        if hasEnded { throw connection.receiveEnd() }
        return nil
    }

    /// Writes what the socket accepts. Write errors are not reported here: the broker's last bytes may still be unread,
    /// and reading them soon reaches the end.
    public mutating func flush() {
        while !cannotWrite {
            if let tls, tls.isHeld {
                switch tls.flush() {
                case .bytes: break
                case .blocked: return
                case .failed: cannotWrite = true
                }
                continue
            }
            let output = connection.output()
            guard !output.isEmpty else { return }
            switch write(output) {
            case .bytes(let count): connection.written(count)
            case .blocked: return
            case .failed: cannotWrite = true
            }
        }
        connection.discardOutput()
    }

    private func write(_ output: UnsafeRawBufferPointer) -> WriteResult {
        guard let tls else { return Socket.write(socket, output) }
        return tls.write(record: UnsafeRawBufferPointer(rebasing: output.prefix(TLSStream.record)))
    }

    /// Reads once, at most `quantum` bytes (more than 0; over TLS at least a record), and returns how many arrived.
    /// Pull events with `next` afterwards.
    public mutating func read(atMost quantum: Int, now: UInt64) throws(ClientError) -> Int {
        guard !hasEnded else { return 0 }
        let most = tls == nil ? quantum : max(quantum, TLSStream.record)
        let space = UnsafeMutableRawBufferPointer(start: connection.space(most), count: most)
        switch tls.map({ $0.read(into: space) }) ?? Socket.read(socket, into: space) {
        case .bytes(let count):
            connection.arrived(count, now: now)
            return count
        case .end: hasEnded = true
        case .blocked: break
        case .failed(let code):
            if let tls, tls.failure != nil { throw Handshake.sentence(tls, address, hasBegun: true) }
            throw ClientError(.lost, "The connection to \(address) was lost: \(SystemError.text(of: code)).")
        }
        return 0
    }

    /// Writes the remaining output to the socket, for at most half a second, and then ends the sending side.
    public mutating func finish() {
        let deadline = Clock.monotonic() + Self.finishTime
        flush()
        while wantsToWrite, Clock.monotonic() < deadline {
            var descriptor = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
            poll(&descriptor, 1, 50)
            flush()
        }
        tls?.end()
        Socket.shutdownWrite(socket)
    }
}
