// BrokerProcess: a broker that runs for one measurement, on its own CPUs.

import CBench
import EventLoop
import Glibc

final class BrokerProcess {
    let id: Int32
    /// The ports for publishers and for subscribers, usually the same.
    let port: UInt16
    let subscriberPort: UInt16
    private let log: String

    private static let patience: UInt64 = 10_000_000_000

    /// Starts a broker and waits until it accepts connections.
    ///
    /// - Parameter directory: an empty directory for this broker.
    convenience init(
        _ contender: Contender, _ programs: Programs, cpus: [Int], directory: String
    ) throws(BenchError) {
        let ports = try BrokerProcess.freePorts(contender.system.hasTwoPorts ? 2 : 1)
        let launch = Launch(contender, port: ports[0], subscriberPort: ports[ports.count - 1])
        try self.init(launch, programs.path(contender.system), ports: ports, cpus: cpus, directory: directory)
    }

    /// - Parameters:
    ///   - path: the program.
    ///   - ports: on which it will listen, the first for publishers and the last for subscribers.
    init(_ launch: Launch, _ path: String, ports: [UInt16], cpus: [Int], directory: String) throws(BenchError) {
        port = ports[0]
        subscriberPort = ports[ports.count - 1]
        log = directory + "/log"
        if let configuration = launch.configuration {
            try Files.write(configuration, to: directory + "/" + Launch.configurationFile)
        }
        id = try BrokerProcess.spawn([path] + launch.arguments, cpus: cpus, directory: directory, log: log)
        do throws(BenchError) {
            for port in ports { try waitUntilListening(port) }
        } catch {
            stop()
            throw error
        }
    }

    /// Kills the broker: nothing of it is needed after its measurement.
    func stop() {
        kill(id, SIGKILL)
        var status: Int32 = 0
        waitpid(id, &status, 0)
    }

    private func waitUntilListening(_ port: UInt16) throws(BenchError) {
        let deadline = Clock.monotonic() + BrokerProcess.patience
        while true {
            do throws(SystemError) {
                close(try Socket.connect(to: Endpoint(host: "127.0.0.1", port: port), timeout: BrokerProcess.patience))
                return
            } catch {
                var status: Int32 = 0
                if waitpid(id, &status, WNOHANG) == id { throw BenchError("the broker terminated: \(lastWords)") }
                if Clock.monotonic() > deadline { throw BenchError("the broker did not start listening: \(lastWords)") }
                poll(nil, 0, 5)
            }
        }
    }

    private var lastWords: String {
        let text = Machine.text(ofFile: log) ?? ""
        return text.split(separator: "\n").last.map(String.init) ?? "it printed nothing"
    }

    static func spawn(
        _ arguments: [String], cpus: [Int], directory: String, log: String
    ) throws(BenchError) -> Int32 {
        guard access(arguments[0], X_OK) == 0 else {
            throw BenchError("\(arguments[0]) is missing; `make bench` installs the systems to compare")
        }
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        defer { for word in words { free(word) } }
        words.append(nil)
        let result = cb_spawn(words, cpus.map(Int32.init), Int32(cpus.count), directory, log)
        if result < 0 { throw BenchError("cannot start \(arguments[0]): \(SystemError.text(of: -result))") }
        return result
    }

    /// The first line that a program prints when it is run with `arguments`.
    static func firstLine(of arguments: [String], cpus: [Int], directory: String) -> String? {
        let log = directory + "/version"
        unlink(log)
        guard let id = try? spawn(arguments, cpus: cpus, directory: directory, log: log) else { return nil }
        var status: Int32 = 0
        waitpid(id, &status, 0)
        return Machine.text(ofFile: log)?.split(separator: "\n").first.map(String.init)
    }

    /// Different ports on which nothing listens.
    static func freePorts(_ count: Int) throws(BenchError) -> [UInt16] {
        var sockets: [Int32] = []
        defer { for fd in sockets { close(fd) } }
        do throws(SystemError) {
            let addresses = try Endpoint(host: "127.0.0.1", port: 0).resolve()
            for _ in 0..<count { sockets.append(try Socket.listen(on: addresses[0])) }
            return sockets.map { Socket.localAddress($0)?.port ?? 0 }
        } catch {
            throw BenchError(error.description)
        }
    }
}
