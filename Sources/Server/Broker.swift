// Broker: forebayd as a function: command line in, exit code out.

import Core
import EventLoop
import HTTP2
import Glibc

public enum Broker {
    /// Runs forebayd with this process's command line, and exits.
    public static func main() -> Never {
        exit(run(CommandLine.arguments))
    }

    /// File descriptors that are not for connections: listeners, epoll and event descriptors of each thread – its own
    /// and those of the library that has HTTP/1.1 –, standard streams, and some to spare.
    static func reservedFiles(threads: Int) -> Int { 32 + 6 * threads }

    /// Nanoseconds that may pass between the end of a drain and the end of the process.
    private static let stopTime: UInt64 = 5_000_000_000

    /// Exit codes: 0 ended as asked, 1 failed, 2 wrong usage.
    static func run(_ arguments: [String]) -> Int32 {
        let options: Options
        do throws(UsageError) {
            switch try Options.parse(arguments) {
            case .help:
                print(usage, terminator: "")
                return 0
            case .version:
                print("forebayd \(forebayVersion)")
                return 0
            case .run(let parsed): options = parsed
            }
        } catch {
            complain("\(error); forebayd -h tells more")
            return 2
        }
        do throws(SystemError) {
            return try serve(options) ? 0 : 1
        } catch {
            complain(error.description)
            return 1
        }
    }

    private static func serve(_ options: Options) throws(SystemError) -> Bool {
        // Before any thread is there, so that all of them have the signals blocked.
        let signals = try Signals([SIGINT, SIGTERM, SIGHUP])
        Signals.ignoreBrokenPipe()
        let log = try Log(level: options.logLevel, format: options.logFormat)
        defer { log.close() }
        var manager = ServiceManager(log: log)
        var configuration = try configure(options, log)
        configuration.passed = try passedSockets()
        let server: Server
        do throws(StartError) {
            server = try Server(configuration, log: log)
        } catch {
            // Behind what the log has told already.
            log.close()
            complain(explain(error, options))
            return false
        }
        var poller = try Poller()
        try poller.add(signals.descriptor, token: 0, interest: .read)
        try poller.add(server.finished.descriptor, token: 1, interest: .read)
        manager.ready(server.status)
        var running = true
        while running {
            for event in 0..<(try poller.wait(timeout: manager.timeout())) where poller[event].token == 1 {
                running = false
            }
            while let signal = signals.next() { obey(signal, server, log, &manager) }
            manager.beat { server.hasPulse() }
        }
        return server.wait()
    }

    /// The sockets that systemd opened; each must have the name of a listener.
    private static func passedSockets() throws(SystemError) -> PassedSockets {
        let passed = try PassedSockets.take()
        let names = Face.all.map(\.name)
        for entry in passed.entries where !names.contains(entry.name) {
            throw SystemError(
                "cannot take the socket \"\(entry.name)\" that was passed as descriptor \(entry.socket)",
                cause: "FileDescriptorName= of its socket unit must be one of \(names.joined(separator: ", "))")
        }
        return passed
    }

    private static func obey(_ signal: Int32, _ server: Server, _ log: Log, _ manager: inout ServiceManager) {
        if signal == SIGHUP {
            if server.isDraining { return }
            manager.reloading()
            defer { manager.ready(server.status) }
            log.write(.info, "nothing to reload", [("signal", "SIGHUP"), ("reason", "there is no configuration file")])
        } else if server.isDraining {
            server.stop()
        } else {
            let connections = String(server.connectionCount)
            manager.stopping("Draining \(connections) connections", within: server.drainTime + stopTime)
            let name = signal == SIGINT ? "SIGINT" : "SIGTERM"
            log.write(.info, "draining", [("signal", name), ("connections", connections)])
            server.drain()
        }
    }

    private static func configure(_ options: Options, _ log: Log) throws(SystemError) -> Server.Configuration {
        let openFiles = try Machine.raiseOpenFiles()
        var configuration = Server.Configuration(listen: options.listen, http: options.http)
        configuration.threads = options.threads ?? min(Machine.cpuCount, Options.threadsRange.upperBound)
        var limits = Limits()
        limits.retain = options.retain
        limits.cors = CORSPolicy(options.origins)
        limits.retainBytes = options.retainBytes
        limits.memory = options.memory ?? DefaultMemory.bytes()
        let files = Int(clamping: openFiles) - reservedFiles(threads: configuration.threads)
        limits.connections = max(1, min(limits.connections, files))
        configuration.limits = limits
        log.write(
            .info, "starting",
            [
                ("version", forebayVersion), ("threads", String(configuration.threads)),
                ("memory", String(limits.memory)), ("open-files", String(openFiles)),
                ("connections", String(limits.connections)),
            ])
        return configuration
    }

    /// A failure to start, as a sentence that says what to do.
    static func explain(_ error: StartError, _ options: Options) -> String {
        guard let face = error.listener, let endpoint = face == .http ? options.http : options.listen else {
            return error.description
        }
        let port = endpoint.port
        switch error.cause.code {
        case EADDRINUSE where face == .http && port > 0 && port == options.listen?.port:
            return "--listen and --http both want port \(port): give them different ones"
        case EADDRINUSE:
            return "port \(port) for \(face.title) is taken: stop the other process or choose \(face.option) "
                + "\(Endpoint(host: endpoint.host, port: 0))"
        case EADDRNOTAVAIL:
            return "this machine has no address \(endpoint.host): choose \(face.option) 127.0.0.1:\(port)"
        case EACCES where port > 0 && port < 1024:
            let unprivileged = Endpoint(host: endpoint.host, port: face.defaultEndpoint.port)
            return "port \(port) needs privileges: choose \(face.option) \(unprivileged)"
        default:
            return error.description
        }
    }

    private static func complain(_ sentence: String) {
        var line = "forebayd: \(sentence)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}
