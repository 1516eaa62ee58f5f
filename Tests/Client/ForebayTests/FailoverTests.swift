// Clients with the addresses of several brokers: which one is next, and what happens when one is lost. Two proxies to
// one broker stand for two nodes that share their topics.

import Client
import Core
import Glibc
import Streams
import Testing

@testable import Forebay

private struct Zero: RandomNumberGenerator {
    mutating func next() -> UInt64 { 0 }
}

private func addresses(_ count: Int) -> [BrokerAddress] {
    (0..<count).map { BrokerAddress(host: "node\($0)", port: 1) }
}

@Suite struct BrokersTests {
    @Test func afterALostConnectionAllAreTriedBeforeTheWait() {
        var brokers = Brokers(addresses(3))
        let error = ClientError(.lost, "lost")
        _ = brokers.fail(error)
        brokers.succeed()
        // The connection to node1 worked until now.
        var seen: [(String, Bool)] = []
        for _ in 0..<7 {
            let host = brokers.current.host
            seen.append((host, brokers.fail(error)))
        }
        #expect(seen.map(\.0) == ["node1", "node2", "node0", "node1", "node2", "node0", "node1"])
        #expect(seen.map(\.1) == [true, true, false, true, true, false, true])
    }

    @Test func aSingleOneIsAlwaysWaitedFor() {
        var brokers = Brokers(addresses(1))
        for _ in 0..<3 {
            let isAtOnce = brokers.fail(ClientError(.lost, "lost"))
            #expect(!isAtOnce && brokers.current.host == "node0")
            #expect(brokers.failure == ClientError(.lost, "lost"))
        }
    }

    @Test(arguments: [
        (ClientError(.setupRejected, "unauthenticated: no"), true), (ClientError(.badFile, "TLS: no file."), true),
        (ClientError(.badCredentials, "too long"), true), (ClientError(.setupRejected, "limit: full"), false),
        (ClientError(.untrusted, "untrusted"), false), (ClientError(.notConnected, "nothing"), false),
    ])
    func errorsOfTheClientItselfAreNotTriedElsewhere(_ error: ClientError, _ concernsAll: Bool) {
        var brokers = Brokers(addresses(2))
        let isAtOnce = brokers.fail(error)
        #expect(isAtOnce != concernsAll)
        // The word at the beginning is for programs.
        if concernsAll { #expect(brokers.failure == error) }
    }

    @Test func theFailureNamesEachAddressOnce() {
        var brokers = Brokers(addresses(2))
        _ = brokers.fail(ClientError(.notConnected, "Nothing is listening at node0:1; check it."))
        _ = brokers.fail(ClientError(.notConnected, "limit: full"))
        #expect(
            brokers.failure
                == ClientError(.notConnected, "Nothing is listening at node0:1; check it. node1:1: limit: full"))
        _ = brokers.fail(ClientError(.untrusted, "not trusted"))
        _ = brokers.fail(ClientError(.setupRejected, "limit: full"))
        #expect(brokers.failure == ClientError(.notConnected, "node0:1: not trusted node1:1: limit: full"))
    }

    @Test func listsAreParsed() throws {
        let list = try BrokerAddress.list("rsocket://a,rsockets://[::1]:7,http://u:p@b/")
        #expect(list.map(\.host) == ["a", "::1", "b"] && list.map(\.port) == [7690, 7, 7691])
        #expect(list.map { $0.tls != nil } == [false, true, false])
        #expect(list[2].credentials == .password(user: "u", password: "p") && list[0].credentials == nil)
        for wrong in ["", ",", "rsocket://a,", ",rsocket://a", "rsocket://a,,rsocket://b", "rsocket://a,gopher://b"] {
            #expect(throws: ClientError.self) { _ = try BrokerAddress.list(wrong) }
        }
    }

    @Test(arguments: [
        (ClientError(.unavailable, "draining: bye"), true, false),
        (ClientError(.unavailable, "unavailable: NATS is gone"), true, false),
        (ClientError(.unavailable, "unavailable: outcome unknown; publish it again"), false, true),
        (ClientError(.setupRejected, "limit: full"), true, false),
        (ClientError(.setupRejected, "unauthenticated: no"), false, false),
        (ClientError(.rejected, "forbidden: no"), false, false), (ClientError(.lost, "lost"), false, false),
    ])
    func anotherBrokerIsAskedOnlyIfNothingWasDone(_ error: ClientError, _ isRefusal: Bool, _ isUnknown: Bool) {
        #expect(error.isRefusal == isRefusal && error.isOutcomeUnknown == isUnknown)
    }
}

@Suite struct ConnectionAttemptsTests {
    private let second: UInt64 = 1_000_000_000
    private let lost = ClientError(.lost, "The connection was lost.")
    private let away = ClientError(.unavailable, "unavailable: NATS is gone")

    /// The wait in milliseconds, or nil at the end.
    private func wait(_ attempts: inout ConnectionAttempts, _ error: ClientError, at now: UInt64 = 0) -> UInt64? {
        var random = Zero()
        guard case .retry(let pause, _) = attempts.fail(error, now: now, using: &random) else { return nil }
        return pause / 1_000_000
    }

    private func attempts(_ count: Int, _ most: Int? = nil) -> ConnectionAttempts {
        ConnectionAttempts(
            Brokers(addresses(count)),
            ReconnectPolicy(first: .milliseconds(200), longest: .seconds(1), attempts: most))
    }

    @Test func beforeTheFirstConnectionEachIsTriedOnce() {
        var three = attempts(3)
        #expect(wait(&three, lost) == 0 && wait(&three, away) == 0 && wait(&three, lost) == nil)
        var one = attempts(1)
        #expect(wait(&one, lost) == nil)
        var random = Zero()
        var refused = attempts(3)
        let error = ClientError(.setupRejected, "unauthenticated: no")
        #expect(refused.fail(error, now: 0, using: &random) == .end(error))
    }

    @Test func theWaitGrowsWithEachRound() {
        var two = attempts(2, 3)
        two.answered(now: 0)
        let waits = (0..<8).map { _ in wait(&two, lost) }
        #expect(waits == [0, 100, 0, 200, 0, 400, 0, nil])
        two.answered(now: 0)
        #expect(wait(&two, lost) == 0 && wait(&two, lost) == 100)
    }

    @Test func aBrokerThatAnswersUnavailableAtOnceIsNoSuccess() {
        var two = attempts(2)
        var waits: [UInt64?] = []
        for round in 0..<6 {
            two.answered(now: UInt64(round) * second)
            waits.append(wait(&two, away, at: UInt64(round) * second + second / 2))
        }
        #expect(waits == [0, 100, 0, 200, 0, 400])
        two.answered(now: 10 * second)
        #expect(wait(&two, away, at: 11 * second) == 0)
        #expect(wait(&two, lost) == 100, "the waits begin again")
    }

    @Test func refusedCredentialsAreTheEnd() {
        var two = attempts(2)
        two.answered(now: 0)
        #expect(wait(&two, ClientError(.setupRejected, "unauthenticated: expired")) == nil)
        // A certificate may be replaced in the meantime.
        var other = attempts(2)
        other.answered(now: 0)
        #expect(wait(&other, ClientError(.badFile, "TLS: no file.")) == 100)
    }
}

@Suite struct FailoverTests {
    /// A wait that no test survives: a client that continues has not waited.
    private var impatient: ForebayOptions {
        var options = ForebayOptions()
        options.reconnect = ReconnectPolicy(first: .seconds(600), longest: .seconds(600))
        options.shufflesBrokers = false
        return options
    }

    @Test(arguments: Wire.allCases) func aLostNodeIsReplacedAtOnce(_ wire: Wire) async throws {
        var limits = Limits()
        limits.retain = 100_000
        let broker = try TestBroker(limits: limits)
        let proxies = try [Proxy(to: broker.port(wire)), Proxy(to: broker.port(wire))]
        try await within {
            let list = proxies.map { $0.url(wire) }.joined(separator: ",")
            let producer = try await ForebayClient.connect(list, impatient)
            let consumer = try await ForebayClient.connect(list, impatient)
            // Numbered, so that nothing in doubt is published twice.
            let publication = (0..<3000).publisher.map(bytes)
                .publish(to: producer.topic("t"), ending: .topic, publisher: "p")
            var next = 0
            for try await message in consumer.topic("t").messages(replay: .all, buffer: 100_000, window: 16) {
                #expect(message.number == next && message.sequence == UInt64(next + 1) && message.gap == nil)
                next += 1
                guard next % 1000 == 500 else { continue }
                let used = proxies[next / 1000 % 2]
                await used.cut()
                used.heal()
            }
            #expect(next == 3000)
            #expect(try await publication.result() == 3000)
            for proxy in proxies { #expect(proxy.connections.load(ordering: .relaxed) >= 2) }
            await producer.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func allAreDownAndOneReturns(_ wire: Wire) async throws {
        let broker = try TestBroker()
        let proxies = try [Proxy(to: broker.port(wire)), Proxy(to: broker.port(wire))]
        try await within {
            let client = try await ForebayClient.connect(proxies.map { $0.url(wire) }.joined(separator: ","), quick)
            let (values, feed) = AsyncStream.makeStream(of: ConnectionState.self)
            let watch = client.states.sink(
                receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0) })
            var messages = client.topic("t").messages(replay: .all).makeAsyncIterator()
            try await client.topic("t").publish("1")
            #expect(try await messages.next()?.number == 1)
            for proxy in proxies { await proxy.cut() }
            let publish = Task { try await client.topic("t").publish("2") }
            // One that was waited for: both have failed.
            for await state in values {
                if case .reconnecting(let pause, let error) = state, pause > .zero {
                    for proxy in proxies { #expect(error.message.contains("127.0.0.1:\(proxy.port)")) }
                    break
                }
            }
            proxies[1].heal()
            #expect(try await messages.next()?.number == 2)
            _ = try await publish.value
            watch.cancel()
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func aWrongAddressDoesNotMatter(_ wire: Wire) async throws {
        let broker = try TestBroker()
        // A port on which another protocol is spoken, a name that does not exist, and a port without a listener.
        let other = "\(wire)://127.0.0.1:\(broker.port(wire == .http ? .rsocket : .http))"
        let wrong = [other, "\(wire)://name.invalid", "\(wire)://127.0.0.1:1"]
        try await within {
            let client = try await ForebayClient.connect((wrong + [broker.url(wire)]).joined(separator: ","), impatient)
            try await client.topic("t").publish("1")
            await client.close()
            let failure = await error { _ = try await ForebayClient.connect(wrong.joined(separator: ","), impatient) }
            #expect(failure?.code == .notConnected)
            for part in ["name.invalid", "127.0.0.1:1;", other.dropFirst("\(wire)://".count).description] {
                #expect(failure?.message.contains(part) == true, "\(failure?.message ?? "no error")")
            }
        }
    }

    @Test func theOrderIsRandomUnlessItMustNotBe() async throws {
        let broker = try TestBroker()
        let proxies = try (0..<2).map { _ in try Proxy(to: broker.port(.rsocket)) }
        let list = proxies.map { $0.url(.rsocket) }.joined(separator: ",")
        try await within {
            for _ in 0..<20 { try await ForebayClient.connect(list, impatient).close() }
            #expect(proxies.map { $0.connections.load(ordering: .relaxed) } == [20, 0])
            // Both are chosen, but for a probability of 2⁻⁶³.
            for _ in 0..<64 { try await ForebayClient.connect(list).close() }
            #expect(proxies[0].connections.load(ordering: .relaxed) > 20)
            #expect(proxies[1].connections.load(ordering: .relaxed) > 0)
        }
    }
}
