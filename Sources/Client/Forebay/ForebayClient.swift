// ForebayClient: a program's connection to a broker.
//
//     program's threads ──Activity──► inbox ──► the client's thread: ClientLoop ──► Link ──► broker
//
// State contains the logic, without I/O; Loop contains the thread.

import Client
import EventLoop
import StreamsCore
import TLS

/// Whether a client is connected.
public enum ConnectionState: Equatable, Sendable {
    /// Connecting for the first time.
    case connecting
    /// The broker has answered.
    case connected
    /// The connection was lost, for this reason; the next attempt is made after this time.
    case reconnecting(after: Duration, ForebayError)
    /// Closed permanently, for this reason: `.closed` by the program, `.refused` credentials, or no attempts left.
    case closed(ForebayError)
}

/// A connection to a broker. A lost connection is restored, with all its subscriptions.
///
/// Each client has a thread, on which it calls the subscribers of its publishers: a slow subscriber delays the others
/// of the same client. `receive(on:)` moves a subscriber to another thread, and slows the broker down instead. A client
/// stays connected until it is closed, or until the last reference to it, its topics and its running subscriptions and
/// publishers is released.
public final class ForebayClient: Sendable {
    let core: ClientCore

    private init(_ core: ClientCore) { self.core = core }

    deinit { core.inbox.push(.close) }

    /// Connects to a broker and waits for its response.
    ///
    /// Several URLs, separated by commas, are the nodes of a cluster. The client uses the first that answers. When it
    /// loses the connection, or the node shuts down or answers `unavailable`, the client continues at the next one.
    ///
    /// - Parameters:
    ///   - url: `rsocket://HOST[:PORT]` (port 7690 if none is given), or `http://HOST[:PORT]` (7691), which is gRPC
    ///     over HTTP/2; `rsockets` and `https` over TLS. Or several of these, separated by commas, tried in random
    ///     order; see ``ForebayOptions/shufflesBrokers``.
    ///   - options: see ``ForebayOptions``; the defaults if omitted.
    /// - Throws: a ``ForebayError``: `.badAddress`, `.badFile`, `.untrusted`; `.refused` if the broker refuses the
    ///   client; `.notConnected` if the first attempt at each broker fails, for different reasons or for another one;
    ///   `.system`. `CancellationError` if the task is cancelled.
    public static func connect(
        _ url: String, _ options: ForebayOptions = ForebayOptions()
    ) async throws -> ForebayClient {
        let brokers = try brokers(url, options)
        try Task.checkCancellation()
        let core = try ClientCore(brokers, options)
        do throws(SystemError) {
            try NamedThread.start("forebay") {
                do throws(SystemError) {
                    try ClientLoop(core).run()
                } catch {
                    let failure = ForebayError(.system, "\(error)")
                    core.close(failure)
                    core.first.resolve(failure)
                    core.ended.resolve(())
                }
            }.detach()
        } catch {
            throw ForebayError(.system, "\(error)")
        }
        let client = ForebayClient(core)
        let failure = await withTaskCancellationHandler {
            await core.first.wait()
        } onCancel: {
            core.first.resolve(.cancelledByUser)
        }
        if let failure { throw failure.asThrown }
        return client
    }

    private static func brokers(_ urls: String, _ options: ForebayOptions) throws(ForebayError) -> Brokers {
        do throws(ClientError) {
            let addresses = try BrokerAddress.list(urls).map { address in
                var address = address
                if address.tls != nil { address.tls = TLSClientSettings(options.tls) }
                if let credentials = options.credentials { address.credentials = Client.Credentials(credentials) }
                return address
            }
            return Brokers(options.shufflesBrokers ? addresses.shuffled() : addresses)
        } catch {
            throw ForebayError(connection: error)
        }
    }

    /// Connects to a broker, passes the client to `body`, and closes it when `body` returns or throws or the task is
    /// cancelled. After cancellation, calls that `body` awaits throw `CancellationError`, and its iterations end.
    ///
    /// - Parameters:
    ///   - url: see ``connect(_:_:)``.
    ///   - options: see ``ForebayOptions``; the defaults if omitted.
    ///   - body: uses the client, which is closed afterwards as by ``close()``.
    /// - Returns: the result of `body`.
    /// - Throws: any error of `body` or of ``connect(_:_:)``.
    nonisolated(nonsending) public static func withConnection<Result>(
        _ url: String, _ options: ForebayOptions = ForebayOptions(),
        _ body: nonisolated(nonsending) (ForebayClient) async throws -> Result
    ) async throws -> Result {
        let client = try await connect(url, options)
        do {
            let result = try await withTaskCancellationHandler {
                try await body(client)
            } onCancel: {
                client.core.inbox.push(.close)
            }
            await client.close()
            return result
        } catch {
            await client.close()
            // The close may have reached what the body was waiting for before the cancellation did.
            if Task.isCancelled, (error as? ForebayError) == .closedByUser { throw CancellationError() }
            throw error
        }
    }

    /// Ends all activities with `.closed`, sends what is still to be written (for at most half a second), and waits
    /// until the client has ended. Closing a client more than once is allowed.
    public func close() async {
        core.inbox.push(.close)
        await core.ended.wait()
    }

    /// A topic by its name: tokens of letters, digits, `-` and `_`, joined by dots, at most 255 bytes. Nothing is sent;
    /// with an invalid name, operations on the topic fail with `.invalid`.
    public func topic(_ name: String) -> Topic { Topic(client: self, name: name) }

    /// The topics that match a pattern, whose messages are received with one subscription. A pattern is a topic's name
    /// in which `*` stands for one token and `>`, at the end, for one or more: `orders.*.eu`, `orders.>`. Nothing is
    /// sent; with an invalid pattern, a subscription fails with `.invalid`. A name without `*` and `>` is a pattern of
    /// one topic.
    public func topics(_ pattern: String) -> Topics { Topics(client: self, pattern: pattern) }

    /// The state of the connection: the current one first, then each change while there is demand, otherwise the
    /// latest.
    public var states: AnyPublisher<ConnectionState, Never> { core.state.eraseToAnyPublisher() }

    /// The current state of the connection.
    public var state: ConnectionState { core.state.value }
}

/// A topic of a broker, to subscribe and publish to.
public struct Topic: Sendable {
    /// The client whose connection is used.
    public let client: ForebayClient
    /// The name as passed to ``ForebayClient/topic(_:)``.
    public let name: String
}

extension TLSClientSettings {
    init(_ options: ForebayOptions.TLS) {
        self.init()
        authority = options.authority
        certificate = options.certificate
        key = options.key
        verifies = options.verifies
    }
}

extension Client.Credentials {
    init(_ credentials: ForebayOptions.Credentials) {
        switch credentials {
        case .password(let user, let password): self = .password(user: user, password: password)
        case .token(let token): self = .token(token)
        }
    }
}
