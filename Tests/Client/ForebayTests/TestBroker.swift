// TestBroker: a real broker in the test's process, which can be killed and restarted on the same ports.

import Client
import Core
import EventLoop
import Glibc
import Testing

@testable import Forebay
@testable import Server

enum Wire: String, CaseIterable, Sendable {
    case rsocket, http

    var plain: WireProtocol { self == .rsocket ? .rsocket : .http }
}

/// Not to be used by several tasks at once.
final class TestBroker: @unchecked Sendable {
    private var server: Server
    private let log: Log
    private let ports: [Wire: UInt16]
    private let limits: Limits

    init(limits: Limits = Limits()) throws {
        self.limits = limits
        log = try Log(level: .error, format: .text, descriptor: open("/dev/null", O_WRONLY))
        server = try TestBroker.start(limits, [:], log)
        var ports: [Wire: UInt16] = [:]
        for wire in Wire.allCases { ports[wire] = server.addresses(wire.plain)[0].port }
        self.ports = ports
    }

    /// Whether `server` has ended, and no other could be started.
    private var isOver = false

    deinit {
        if !isOver {
            server.stop()
            _ = server.wait()
        }
        log.close()
    }

    private static func start(_ limits: Limits, _ ports: [Wire: UInt16], _ log: Log) throws -> Server {
        var configuration = Server.Configuration(
            listen: Endpoint(host: "127.0.0.1", port: ports[.rsocket] ?? 0),
            http: Endpoint(host: "127.0.0.1", port: ports[.http] ?? 0), threads: 2)
        configuration.limits = limits
        return try Server(configuration, log: log)
    }

    func port(_ wire: Wire) -> UInt16 { ports[wire]! }
    func url(_ wire: Wire) -> String { "\(wire)://127.0.0.1:\(port(wire))" }

    /// The broker's information on a topic, in JSON.
    func describe(_ topic: String) throws -> String { try ForebayTests.describe(topic, port: port(.rsocket)) }

    /// Restarts the broker: all retained messages are lost, and all connections are cut.
    func restart() throws {
        server.stop()
        isOver = true
        #expect(server.wait())
        server = try TestBroker.start(limits, ports, log)
        isOver = false
    }
}

/// Information on a topic, in JSON, from the broker that serves RSocket on this port.
func describe(_ topic: String, port: UInt16) throws -> String {
    var link = try Link(to: BrokerAddress(host: "127.0.0.1", port: port))
    let id = try link.connection.call(.topicInfo(topic))
    link.flush()
    while true {
        while let event = try link.next() {
            if case .message(id, let message) = event { return String(decoding: message.data, as: UTF8.self) }
            if case .failed(id, let error) = event { throw error }
        }
        var descriptor = pollfd(fd: link.socket, events: Int16(POLLIN), revents: 0)
        poll(&descriptor, 1, 1000)
        _ = try link.read(atMost: 4096, now: Clock.monotonic())
    }
}

/// Options for tests, which should not wait long for a second attempt.
var quick: ForebayOptions {
    var options = ForebayOptions()
    options.reconnect = ReconnectPolicy(first: .milliseconds(10), longest: .milliseconds(100))
    return options
}

struct TimedOut: Error {}

/// Fails a test that waits for something that never happens.
func within<Value: Sendable>(
    _ limit: Duration = .seconds(120), _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value.self) { group in
        group.addTask(operation: body)
        group.addTask {
            try await Task.sleep(for: limit)
            throw TimedOut()
        }
        defer { group.cancelAll() }
        return try await group.next()!
    }
}

func bytes(_ number: Int) -> [UInt8] { Array(String(number).utf8) }

extension Message {
    var number: Int { Int(text) ?? -1 }
}
