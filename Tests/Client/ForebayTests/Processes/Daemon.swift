// Daemon: forebayd as a separate process, which can be killed as with kill -9, drained, and restarted.

import Foundation
import Glibc
import Testing

@testable import Forebay

/// Not to be used by several tasks at once.
final class Daemon: @unchecked Sendable {
    struct DidNotStart: Error {
        var log: String
    }

    private let ports: [Wire: UInt16]
    private let options: [String]
    private(set) var process: ChildProcess

    /// The broker's ports are outside the kernel's ephemeral range: otherwise one could be taken while the broker is
    /// down, perhaps by the reconnecting client.
    init(_ options: [String] = []) throws {
        self.options = options
        for attempt in 1... {
            let first = UInt16.random(in: 10_000..<16_000) * 2
            let ports = [Wire.rsocket: first, .http: first + 1]
            do {
                process = try Self.start(ports, options)
                self.ports = ports
                return
            } catch let error as DidNotStart {
                if attempt == 20 { throw error }
            }
        }
        fatalError("not reached")
    }

    private static func start(_ ports: [Wire: UInt16], _ options: [String]) throws -> ChildProcess {
        let listeners = [
            "--listen", "127.0.0.1:\(ports[.rsocket]!)", "--http", "127.0.0.1:\(ports[.http]!)", "--admin", "off",
            "--threads", "2",
        ]
        let process = try ChildProcess("forebayd", listeners + options)
        var log = ""
        while log.components(separatedBy: " listening ").count < 3 {
            guard let more = process.read() else { throw DidNotStart(log: log) }
            log += more
        }
        return process
    }

    func port(_ wire: Wire) -> UInt16 { ports[wire]! }
    func url(_ wire: Wire) -> String { "\(wire)://127.0.0.1:\(port(wire))" }

    /// Kills the broker: nothing is sent, nothing is flushed.
    func kill() {
        process.kill(SIGKILL)
        #expect(process.wait() == -SIGKILL)
    }

    func start() throws { process = try Self.start(ports, options) }

    /// Asks the broker to end once it has delivered what it holds.
    func drain() { process.kill(SIGTERM) }
}
