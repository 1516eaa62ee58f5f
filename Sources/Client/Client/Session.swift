// Session: a link, and the only place where a client with one connection waits: for the broker, standard input and
// output, signals and the clock.
//
// A session uses poll(2) instead of the broker's Poller: epoll refuses regular files, and a client's input and output
// are often regular files.

import Bytes
import EventLoop
import Glibc

/// A connected client. One thread owns it; `wait` is the only call that blocks.
public struct Session: ~Copyable {
    /// What to wait for besides the broker.
    public struct Wants {
        /// Whether standard input is readable or has ended.
        public var input = false
        /// Whether the output descriptor can take more.
        public var output = false
        /// Whether to watch for the reader of the output to go away, even if there is no output.
        public var outputGone = false
        /// Whether to read what the broker sends. Otherwise it stays in the socket, and TCP holds the broker back.
        public var reading = true
        /// Nanoseconds of the monotonic clock; nil waits forever.
        public var until: UInt64?

        public init() {}
    }

    /// Why a wait ended.
    public struct Woken {
        public var now: UInt64
        public var input = false
        public var output = false
        /// Whether the reader of the output is gone.
        public var outputGone = false
        /// The number of a received signal.
        public var signal: Int32?
    }

    private var link: Link
    private let signals: Signals
    private let outputDescriptor: Int32

    /// Bytes read from the broker in one turn.
    private static let readQuantum = 128 << 10

    public var connection: any ClientConnection { link.connection }
    /// This side's address, as the broker lists it.
    public var localAddress: String { link.localAddress }
    public var address: BrokerAddress { link.address }

    /// Connects to the first of several brokers that answers, from the current one on. Blocks until the session is
    /// connected or has failed, and then takes over the signals.
    /// - Parameters:
    ///   - brokers: the one that answers is then the current one.
    ///   - output: the descriptor that messages will be written to, watched for its reader.
    public init(
        to brokers: inout Brokers, signals numbers: [Int32], output: Int32 = 1
    ) throws(ClientError) {
        Signals.ignoreBrokenPipe()
        let link = try Self.connect(&brokers)
        self.init(link, try Self.take(numbers), output)
    }

    /// - Throws: an error with the messages of all attempts.
    private static func connect(_ brokers: inout Brokers) throws(ClientError) -> Link {
        let time = brokers.isSingle ? Link.connectTime : Brokers.attemptTime
        while true {
            do throws(ClientError) {
                return try Link(to: brokers.current, within: time)
            } catch {
                guard brokers.fail(error) else { throw brokers.failure }
            }
        }
    }

    private init(_ link: consuming Link, _ signals: consuming Signals, _ output: Int32) {
        self.link = link
        self.signals = signals
        outputDescriptor = output
    }

    /// Replaces the connection by one to this broker. Blocks until the session is connected or has failed, at most
    /// `Brokers.attemptTime` after the name lookup.
    public mutating func reconnect(to address: BrokerAddress) throws(ClientError) {
        link = try Link(to: address, within: Brokers.attemptTime)
    }

    /// Passes a connection to the first of several brokers that serves `body`, in the order of the list. The next one
    /// is asked only if a broker refuses the client or its request without having done anything.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`, or an error with the messages of all brokers.
    public static func run<Value>(
        _ addresses: [BrokerAddress], signals: [Int32], _ body: (inout Session) throws(ClientError) -> Value
    ) throws(ClientError) -> Value {
        var brokers = Brokers(addresses)
        var session = try Session(to: &brokers, signals: signals)
        while true {
            do throws(ClientError) {
                return try body(&session)
            } catch {
                guard error.isRefusal else { throw error }
                guard brokers.fail(error) else { throw brokers.failure }
            }
            session.link = try connect(&brokers)
        }
    }

    /// Waits without using the connection, for a signal or until the reader of the output is gone.
    /// - Parameters:
    ///   - until: nanoseconds of the monotonic clock.
    ///   - input: wait for standard input as well.
    public func rest(until: UInt64, input: Bool = false) -> Woken {
        var descriptors = [
            pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: outputDescriptor, events: 0, revents: 0),
            pollfd(fd: input ? 0 : -1, events: Int16(POLLIN), revents: 0),
        ]
        Self.poll(&descriptors, now: Clock.monotonic(), until: until)
        var woken = Woken(now: Clock.monotonic())
        if descriptors[0].revents != 0 { woken.signal = signals.next() }
        woken.outputGone = Self.isGone(descriptors[1])
        woken.input = descriptors[2].revents != 0
        return woken
    }

    private static func poll(_ descriptors: inout [pollfd], now: UInt64, until: UInt64) {
        let timeout = until > now ? (until - now + 999_999) / 1_000_000 : 0
        // Treat an interrupted wait as one without events.
        if Glibc.poll(&descriptors, nfds_t(descriptors.count), Int32(min(timeout, 3_600_000))) < 0 {
            for index in descriptors.indices { descriptors[index].revents = 0 }
        }
    }

    private static func isGone(_ descriptor: pollfd) -> Bool {
        descriptor.revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
    }

    private static func take(_ numbers: [Int32]) throws(ClientError) -> Signals {
        do throws(SystemError) {
            return try Signals(numbers)
        } catch {
            throw ClientError(.notConnected, "\(error)")
        }
    }

    /// The next event; nil if there is none before the next `wait`.
    public mutating func next() throws(ClientError) -> ClientEvent? { try link.next() }

    /// Writes the output, waits, and reads once. Pull events with `next` afterwards.
    public mutating func wait(_ wants: Wants) throws(ClientError) -> Woken {
        link.flush()
        var now = Clock.monotonic()
        connection.setReading(wants.reading, now: now)
        var descriptors = [
            pollfd(fd: link.socket, events: socketEvents(wants), revents: 0),
            pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wants.input ? 0 : -1, events: Int16(POLLIN), revents: 0),
            pollfd(
                fd: wants.output || wants.outputGone ? outputDescriptor : -1,
                events: wants.output ? Int16(POLLOUT) : 0, revents: 0),
        ]
        // A dead socket that is neither read nor written would wake us repeatedly.
        if descriptors[0].events == 0 { descriptors[0].fd = -1 }
        Self.poll(&descriptors, now: now, until: min(connection.deadline, wants.until ?? UInt64.max))
        now = Clock.monotonic()
        var woken = Woken(now: now)
        if descriptors[0].revents & Int16(POLLOUT | POLLERR | POLLHUP) != 0 { link.flush() }
        if wants.reading, descriptors[0].revents & Int16(POLLIN | POLLERR | POLLHUP) != 0 {
            _ = try link.read(atMost: Self.readQuantum, now: now)
        }
        if descriptors[1].revents != 0 { woken.signal = signals.next() }
        woken.input = descriptors[2].revents != 0
        woken.output = descriptors[3].revents & Int16(POLLOUT) != 0
        woken.outputGone = Self.isGone(descriptors[3])
        try connection.fire(now: now)
        return woken
    }

    private func socketEvents(_ wants: Wants) -> Int16 {
        var events: Int32 = 0
        if wants.reading, !link.hasEnded { events |= POLLIN }
        if link.wantsToWrite { events |= POLLOUT }
        return Int16(events)
    }

    /// Writes the remaining output to the socket, for at most half a second, and then ends the sending side.
    public mutating func finish() { link.finish() }
}
