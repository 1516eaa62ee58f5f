// ForebayClient: a program's connection to a broker.
//
//     program's threads ──Activity──► inbox ──► the client's thread: ClientLoop ──► Link ──► broker
//
// Sources/Client/Forebay/State has what is decided, without I/O; Sources/Client/Forebay/Loop has the thread.

import Client
import EventLoop
import StreamsCore
import TLS

/// Whether a client is connected.
public enum ConnectionState: Equatable, Sendable {
    /// For the first time.
    case connecting
    /// The broker has answered.
    case connected
    /// The connection was lost, and why; the next attempt is made after that time.
    case reconnecting(after: Duration, ForebayError)
    /// For good, and why: `.closed` by the program, `.refused` credentials, or there were no attempts left.
    case closed(ForebayError)
}

/// A connection to a broker that comes back when it is lost, with all its subscriptions.
///
/// A client has one thread of its own, on which it calls the subscribers of its publishers: a subscriber that takes
/// long holds up the others of the same client. `receive(on:)` moves it elsewhere, and slows the broker down instead.
/// A client stays connected until it is closed, or the last of it, its topics and its running subscriptions and
/// publishes is let go of.
public final class ForebayClient: Sendable {
    let core: ClientCore

    private init(_ core: ClientCore) { self.core = core }

    deinit { core.inbox.push(.close) }

    /// Connects to a broker, and waits for its answer.
    ///
    /// - Parameters:
    ///   - url: `rsocket://HOST[:PORT]` (port 7690 if none is given), or `http://HOST[:PORT]` (7691), which is gRPC
    ///     over HTTP/2; `rsockets` and `https` over TLS.
    ///   - options: what differs from the defaults.
    /// - Throws: a ``ForebayError``: `.badAddress`, `.badFile`, `.untrusted`; `.refused` when the broker does not let
    ///   the client in; `.notConnected` when the first attempt fails otherwise; `.system`. `CancellationError` when the
    ///   task is cancelled.
    public static func connect(
        _ url: String, _ options: ForebayOptions = ForebayOptions()
    ) async throws -> ForebayClient {
        var address: BrokerAddress
        do throws(ClientError) {
            address = try BrokerAddress(url: url)
            if address.tls != nil { address.tls = TLSClientSettings(options.tls) }
            if let credentials = options.credentials { address.credentials = Client.Credentials(credentials) }
        } catch {
            throw ForebayError(connection: error)
        }
        try Task.checkCancellation()
        let core = try ClientCore(address, options)
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

    /// Connects to a broker, hands the client to `body`, and closes it when that returns, throws, or the task is
    /// cancelled: what `body` waits for then ends with `CancellationError`, or by the end of its iteration.
    ///
    /// - Parameters:
    ///   - url: as ``connect(_:_:)`` takes it.
    ///   - options: what differs from the defaults.
    ///   - body: uses the client, which is closed afterwards, and waited for as ``close()`` does.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, and what ``connect(_:_:)`` does.
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
            // The close may have been faster than the cancellation in what the body was waiting for.
            if Task.isCancelled, (error as? ForebayError) == .closedByUser { throw CancellationError() }
            throw error
        }
    }

    /// Ends everything that is under way with `.closed`, gives the network what is still to be written (for half a
    /// second at most), and waits until that is done. A client can be closed any number of times.
    public func close() async {
        core.inbox.push(.close)
        await core.ended.wait()
    }

    /// A topic by its name: tokens of letters, digits, `-` and `_`, joined by dots, 255 bytes at most. Nothing is sent;
    /// a bad name fails what is done with the topic, with `.invalid`.
    public func topic(_ name: String) -> Topic { Topic(client: self, name: name) }

    /// The connection's state: the present one first, then every change as long as there is demand, else the latest.
    public var states: AnyPublisher<ConnectionState, Never> { core.state.eraseToAnyPublisher() }

    /// The connection's present state.
    public var state: ConnectionState { core.state.value }
}

/// A topic of a broker, to subscribe to and to publish to.
public struct Topic: Sendable {
    /// The client whose connection is used.
    public let client: ForebayClient
    /// The name, as it was given.
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
