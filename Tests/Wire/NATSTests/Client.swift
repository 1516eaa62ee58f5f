// A client's connection in tests: what it reports, as lines of text, and what it writes.

import Testing

@testable import NATS

/// A connection, and what it reported and wrote.
final class Client {
    var connection: NATSConnection
    var events: [String] = []
    var now: UInt64 = 1_000

    init(_ options: NATSOptions = Client.options) { connection = NATSConnection(options) }

    static var options: NATSOptions { NATSOptions(name: "test", version: "1") }

    /// A connection that is ready.
    static func ready(_ options: NATSOptions = Client.options, info: String = Client.info) -> Client {
        let client = Client(options)
        client.open()
        client.receive("INFO \(info)\r\nPONG\r\n")
        #expect(client.events == ["ready"])
        client.events = []
        _ = client.output()
        return client
    }

    static let info = #"{"server_id":"S","version":"2.11.0","headers":true,"jetstream":true,"max_payload":1000}"#

    func open() {
        connection.opened(now: now)
        drain()
    }

    func receive(_ text: String) {
        withRaw(text) { bytes in
            connection.received(bytes, now: now)
            drain()
        }
    }

    func secure() {
        connection.secured(now: now)
        drain()
    }

    func close() {
        connection.closed()
        drain()
    }

    /// Lets time pass.
    func wait(_ time: UInt64) {
        now += time
        connection.tick(now: now)
        drain()
    }

    var isReady: Bool { connection.isReady }
    var isEnded: Bool { connection.isEnded }
    var deadline: UInt64? { connection.deadline }
    var info: NATSInfo? { connection.info }
    var usesTLS: Bool { connection.usesTLS }
    var room: Int { connection.room }
    var bufferedBytes: Int { connection.bufferedBytes }
    /// Bytes that wait to be sent.
    var pending: Int { connection.pending.count }

    /// What was written since the last call.
    func output() -> String {
        let all = text(connection.pending)
        connection.sent(connection.pending.count)
        return all
    }

    private func drain() {
        while let event = connection.next() { events.append(describe(event)) }
    }

    private func describe(_ event: NATSEvent) -> String {
        switch event {
        case .startTLS: "startTLS"
        case .ready: "ready"
        case .message(let message): NATSTests.describe(message)
        case .flushed(let number): "flushed \(number)"
        case .info(let mustMove): mustMove ? "info, move" : "info"
        case .refused(let error): "refused \(error)"
        case .failed(let error, let cause): "failed \(error)" + (cause.map { " (\($0))" } ?? "")
        }
    }
}
