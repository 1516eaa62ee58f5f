// Scoped connections, how cancellation ends waits, and error texts.

import Foundation
import Streams
import Testing

@testable import Forebay

@Suite struct ConnectionTests {
    @Test(arguments: Wire.allCases) func aScopedConnectionIsClosedOnReturn(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let (client, sequence) = try await ForebayClient.withConnection(broker.url(wire)) { client in
                (client, try await client.topic("t").publish("x").sequence)
            }
            #expect(sequence == 1 && client.state == .closed(.closedByUser))
        }
    }

    @Test func aScopedConnectionIsClosedWhenTheBodyThrows() async throws {
        let broker = try TestBroker()
        try await within {
            let kept = Guarded<ForebayClient?>(nil)
            await #expect(throws: Boom.self) {
                try await ForebayClient.withConnection(broker.url(.rsocket)) { client in
                    kept.withLock { $0 = client }
                    throw Boom()
                }
            }
            #expect(kept.withLock { $0 }?.state == .closed(.closedByUser))
        }
    }

    @Test(arguments: Wire.allCases) func aScopedConnectionIsClosedOnCancellation(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let (began, feed) = AsyncStream.makeStream(of: ForebayClient.self)
            let task = Task {
                try await ForebayClient.withConnection(broker.url(wire)) { client in
                    feed.yield(client)
                    // The subscription is not a child task of the body, so it is not cancelled with the body.
                    let outcome = OneShot<Void>()
                    client.topic("t").messages()
                        .subscribe(
                            DemandSink(
                                demand: 1, receiveCompletion: { _ in outcome.resolve(()) }, receiveValue: { _ in }))
                    await outcome.wait()
                    try await client.topic("t").publish("late")
                }
            }
            var iterator = began.makeAsyncIterator()
            let client = try #require(await iterator.next())
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(client.state == .closed(.closedByUser))
        }
    }

    @Test func aCancelledTaskThrowsCancellationError() async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(.rsocket))
            func cancelled(_ body: @escaping @Sendable () async throws -> Void) async {
                let task = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    try await body()
                }
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            let url = broker.url(.rsocket)
            await cancelled { _ = try await ForebayClient.connect(url) }
            await cancelled {
                _ = try await PassthroughSubject<[UInt8], Never>().publish(to: client.topic("t")).result()
            }
            // Cancelled by the program, not through the task.
            let publication = PassthroughSubject<[UInt8], Never>().publish(to: client.topic("t"))
            publication.cancel()
            #expect(await error { _ = try await publication.result() }?.code == .cancelled)
            await client.close()
        }
    }

    @Test func anErrorSaysItsMessage() async throws {
        let failure = await error { _ = try await ForebayClient.connect("rsocket://127.0.0.1:1") }
        let reported = try #require(failure)
        #expect(
            reported.localizedDescription == reported.message
                && (reported as any Error).localizedDescription == reported.message)
        #expect(!reported.message.isEmpty)
    }

    @Test(arguments: [
        ["ticker"], ["slow-consumer"], ["pausable-view"], ["pipeline", "produce"], ["pipeline", "consume", "1"],
    ]) func anExampleWithoutABrokerSaysSo(_ command: [String]) async throws {
        try await within {
            let example = try ChildProcess(command[0], Array(command[1...]) + ["rsocket://127.0.0.1:1"])
            #expect(try await example.end() == 3)
            let reported = example.read() ?? ""
            #expect(reported.contains("127.0.0.1:1") && !reported.contains("Fatal error"))
        }
    }
}
