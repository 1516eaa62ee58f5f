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
    static func reservedFiles(threads: Int) -> Int { 32 + 6 * threads + AdminLimits.connections }

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
        let configuration = try configure(options, log)
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
        var asked = false
        var running = true
        while running {
            for event in 0..<(try poller.wait(timeout: nil)) where poller[event].token == 1 { running = false }
            while let signal = signals.next() { obey(signal, server, log, &asked) }
        }
        return server.wait()
    }

    private static func obey(_ signal: Int32, _ server: Server, _ log: Log, _ asked: inout Bool) {
        if signal == SIGHUP {
            log.write(.info, "nothing to reload", [("signal", "SIGHUP"), ("reason", "there is no configuration file")])
        } else if asked {
            server.stop()
        } else {
            asked = true
            let name = signal == SIGINT ? "SIGINT" : "SIGTERM"
            log.write(.info, "draining", [("signal", name), ("connections", String(server.connectionCount))])
            server.drain()
        }
    }

    private static func configure(_ options: Options, _ log: Log) throws(SystemError) -> Server.Configuration {
        let openFiles = try Machine.raiseOpenFiles()
        var configuration = Server.Configuration(listen: options.listen, http: options.http)
        configuration.admin = options.admin
        configuration.hostNames = options.hostNames
        configuration.threads = options.threads ?? min(Machine.cpuCount, Options.threadsRange.upperBound)
        var limits = Limits()
        limits.retain = options.retain
        limits.cors = CORSPolicy(options.origins)
        // Whoever can use HTTP without saying who it is, a page of somebody else's can by way of its visitors.
        limits.hosts = HostPolicy(options.hostNames)
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
        if error.isAdmin, let endpoint = options.admin { return explainAdmin(error.cause, endpoint) }
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

    private static func explainAdmin(_ cause: SystemError, _ endpoint: Endpoint) -> String {
        switch cause.code {
        case EADDRINUSE:
            return "port \(endpoint.port) for the admin listener is taken: stop the other process, choose --admin "
                + "\(Endpoint(host: endpoint.host, port: 0)), or turn it off with --admin off"
        case EADDRNOTAVAIL:
            return "this machine has no address \(endpoint.host): choose --admin 127.0.0.1:\(endpoint.port)"
        case EACCES where endpoint.port < 1024:
            let unprivileged = Endpoint(host: endpoint.host, port: Options.defaultAdmin.port)
            return "port \(endpoint.port) needs privileges: choose --admin \(unprivileged)"
        default:
            return "--admin: \(cause)"
        }
    }

    private static func complain(_ sentence: String) {
        var line = "forebayd: \(sentence)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}
