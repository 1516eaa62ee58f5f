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
    init(_ contender: Contender, _ programs: Programs, cpus: [Int], directory: String) throws(BenchError) {
        let port = try BrokerProcess.freePort()
        var other = port
        while contender.system.hasTwoPorts, other == port { other = try BrokerProcess.freePort() }
        let launch = Launch(contender, port: port, subscriberPort: other)
        let path = programs.path(contender.system)
        self.port = port
        subscriberPort = other
        log = directory + "/log"
        if let configuration = launch.configuration {
            try Files.write(configuration, to: directory + "/" + Launch.configurationFile)
        }
        id = try BrokerProcess.spawn([path] + launch.arguments, cpus: cpus, directory: directory, log: log)
        do throws(BenchError) {
            for port in Set([port, other]) { try waitUntilListening(port) }
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

    private static func freePort() throws(BenchError) -> UInt16 {
        do throws(SystemError) {
            let addresses = try Endpoint(host: "127.0.0.1", port: 0).resolve()
            let fd = try Socket.listen(on: addresses[0])
            defer { close(fd) }
            return Socket.localAddress(fd)?.port ?? 0
        } catch {
            throw BenchError(error.description)
        }
    }
}
