// Broker: forebayd as a function that takes the command line and returns the exit code.

import Bytes
import Access
import Core
import EventLoop
import Glibc
import Store

public enum Broker {
    /// Runs forebayd with this process's command line and exits.
    public static func main() -> Never {
        exit(run(CommandLine.arguments))
    }

    /// Maximum nanoseconds between the end of a drain and the end of the process.
    private static let stopTime: UInt64 = 5_000_000_000

    /// Exit codes: 0 stopped as requested, 1 failed, 2 invalid usage or configuration.
    static func run(_ arguments: [String]) -> Int32 {
        Machine.fillStandardStreams()
        // Swift reads the arguments from /proc. Without /proc there are none, and all options would be ignored.
        if arguments.isEmpty {
            complain("cannot read the command line: mount /proc")
            return 1
        }
        do throws(UsageError) {
            let invocation: Invocation
            do throws(UsageError) {
                invocation = try Invocation.parse(arguments)
            } catch {
                throw UsageError("\(error); see forebayd -h")
            }
            switch invocation.action {
            case .hashPassword: return HashPassword.run()
            case .help: return show(usage)
            case .print(let text): return show(text)
            case .version: return show("forebayd \(forebayVersion)\n")
            case .run, .check, .printConfig, .store: break
            }
            return try obey(invocation)
        } catch {
            for fault in error.faults { complain(fault) }
            return 2
        }
    }

    private static func obey(_ invocation: Invocation) throws(UsageError) -> Int32 {
        let (loaded, path) = try ConfigurationFile.load(invocation)
        if case .store(let command) = invocation.action { return try StoreTool.run(command, loaded) }
        let machine: MachineLimits
        do throws(SystemError) {
            machine = try MachineLimits()
        } catch {
            complain(error.description)
            return 1
        }
        let configuration = try Server.Configuration(loaded, path: path, machine: machine)
        if invocation.action == .run {
            do throws(SystemError) {
                let start = Reloader(
                    invocation, path: path, loaded: loaded, access: configuration.access.settings, machine: machine)
                return try serve(start, configuration)
            } catch {
                complain(error.description)
                return 1
            }
        }
        for warning in loaded.warnings { complain(warning) }
        if invocation.action == .check {
            try checkCertificate(configuration)
            do throws(StartError) {
                try Server.checkOpen(configuration)
            } catch {
                throw UsageError(explain(error, loaded))
            }
            try checkStore(configuration, loaded)
            checkUpstream(configuration)
            return show("forebayd: \(path.map { "\($0) is" } ?? "the settings are") valid\n")
        }
        return show(loaded.printed(effective: machine.effective(loaded.options, configuration)))
    }

    private static func checkStore(
        _ configuration: Server.Configuration, _ loaded: Loaded
    ) throws(UsageError) {
        guard let options = configuration.store?.options else { return }
        do throws(StoreError) {
            try Store.checkPlace(options)
        } catch {
            throw UsageError(explain(error, loaded))
        }
    }

    /// Warns if NATS cannot be reached. A broker starts nevertheless, and keeps trying.
    private static func checkUpstream(_ configuration: Server.Configuration) {
        guard let upstream = configuration.upstream else { return }
        Signals.ignoreBrokenPipe()
        if let cause = UpstreamService.check(upstream) { complain("cannot reach NATS (upstream): \(cause)") }
    }

    private static func checkCertificate(_ configuration: Server.Configuration) throws(UsageError) {
        guard let validity = configuration.tls?.validity else { return }
        let now = Clock.wall()
        if CertificateWatch.hasEnded(validity, wall: now) {
            let end = CertificateWatch.date(validity.ends)
            throw UsageError(
                "the certificate of \(validity.subject) expired at \(end): clients that verify it will refuse it")
        }
        if let fault = CertificateWatch.fault(validity, wall: now) {
            complain("the certificate of \(validity.subject) needs renewal: \(fault)")
        }
    }

    private static func serve(
        _ start: Reloader, _ configuration: Server.Configuration
    ) throws(SystemError) -> Int32 {
        var reloader = start
        let options = reloader.loaded.options
        // Must come before the first thread, so that all threads have these signals blocked.
        let signals = try Signals([SIGINT, SIGTERM, SIGHUP])
        Signals.ignoreBrokenPipe()
        let log = try Log(level: options.logLevel, format: options.logFormat)
        defer { log.close() }
        var manager = ServiceManager(log: log)
        var configuration = configuration
        configuration.passed = try passedSockets()
        reportStart(reloader, configuration, log)
        let server: Server
        do throws(StartError) {
            server = try Server(configuration, log: log)
        } catch {
            // Comes after the lines that are already in the log.
            log.close()
            complain(explain(error, start.loaded))
            return isUsage(error, options) ? 2 : 1
        }
        var poller = try Poller()
        try poller.add(signals.descriptor, token: 0, interest: .read)
        try poller.add(server.finished.descriptor, token: 1, interest: .read)
        manager.ready(server.status)
        var certificate = CertificateWatch(now: Clock.monotonic())
        var memory = MemoryReturn(now: Clock.monotonic())
        var clock = ClockWatch(moment())
        var running = true
        while running {
            let now = Clock.monotonic()
            let timeout = min(
                manager.timeout() ?? .max, certificate.timeout(now: now), memory.timeout(now: now),
                clock.timeout(now: now))
            for event in 0..<(try poller.wait(timeout: timeout)) where poller[event].token == 1 {
                running = false
            }
            while let signal = signals.next() {
                if signal == SIGHUP {
                    reload(&reloader, server, log, &manager)
                } else {
                    end(signal, server, log, &manager, drainTime: reloader.loaded.options.drainTime)
                }
            }
            manager.beat { server.hasPulse() }
            if certificate.look(now: Clock.monotonic()) { server.warnOfCertificate() }
            server.returnMemory(&memory)
            if let jump = clock.look(moment()) {
                log.write(.warning, "system clock changed", [("by-ms", jump / 1_000_000)])
                server.warnOfCertificate()
            }
        }
        return server.wait() ? 0 : 1
    }

    private static func moment() -> Instant { Instant(monotonic: Clock.monotonic(), wall: Clock.wall()) }

    /// The sockets passed by systemd; each must have the name of a listener.
    private static func passedSockets() throws(SystemError) -> PassedSockets {
        let passed = try PassedSockets.take()
        let names = Listener.names
        for entry in passed.entries where !names.contains(entry.name) {
            throw SystemError(
                "cannot use the socket \"\(entry.name)\" that was passed as descriptor \(entry.socket)",
                cause: "FileDescriptorName= in its socket unit must be one of \(names.joined(separator: ", "))")
        }
        return passed
    }

    private static func reload(
        _ reloader: inout Reloader, _ server: Server, _ log: Log, _ manager: inout ServiceManager
    ) {
        if server.isDraining { return }
        manager.reloading()
        reloader.reload(server, log: log)
        manager.ready(server.status)
    }

    /// Drains the broker on the first signal, and stops it at once on the second.
    private static func end(
        _ signal: Int32, _ server: Server, _ log: Log, _ manager: inout ServiceManager, drainTime: UInt64
    ) {
        if server.isDraining { return server.stop() }
        let count = server.connectionCount
        manager.stopping("Draining \(counted(count, "connection"))", within: drainTime + stopTime)
        let name = signal == SIGINT ? "SIGINT" : "SIGTERM"
        log.write(.info, "draining", [("signal", name), ("connections", count)])
        server.drain()
    }

    private static func reportStart(_ start: Reloader, _ configuration: Server.Configuration, _ log: Log) {
        log.write(
            .info, "starting",
            [
                ("version", forebayVersion), ("configuration", start.path ?? "none"),
                ("threads", configuration.threads), ("memory", configuration.limits.memory),
                ("open-files", start.machine.openFiles),
                ("connections", configuration.limits.connections),
            ])
        if let shortage = start.machine.shortage(start.loaded.options, configuration) {
            log.write(.warning, "few open files", shortage)
        }
        for warning in start.loaded.warnings { log.write(.warning, "suspicious setting", [("cause", warning)]) }
        if start.loaded.options.tls.usesKernel {
            let offered = Machine.kernelSpeaksTLS ? "yes" : "no, using OpenSSL"
            log.write(.info, "kernel TLS", [("offered", offered)])
        }
    }

    /// Prints the text. Returns the exit code, which is not 0 if only a part could be written.
    static func show(_ text: String) -> Int32 { show(Array(text.utf8)) }

    static func show(_ bytes: [UInt8]) -> Int32 {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                complain("cannot write the output: \(SystemError.text(of: errno))")
                return 1
            }
        }
        return 0
    }

    static func complain(_ sentence: String) {
        var line = "forebayd: \(sentence)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}
