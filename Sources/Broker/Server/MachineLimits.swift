// MachineLimits: settings that depend on the machine, and limits imposed by it.

import Access
import Core
import EventLoop
import HTTP2
import Store
import TLS

struct MachineLimits: Equatable, Sendable {
    var openFiles: UInt64
    var cpus: Int
    /// Default memory budget in bytes.
    var memory: Int

    /// Raises the limit on open files as far as possible.
    init() throws(SystemError) {
        openFiles = try Machine.raiseOpenFiles()
        cpus = Machine.cpuCount
        memory = DefaultMemory.bytes()
    }

    init(openFiles: UInt64, cpus: Int, memory: Int) {
        self.openFiles = openFiles
        self.cpus = cpus
        self.memory = memory
    }

    /// File descriptors that are not for connections: listeners, epoll and event descriptors of each thread and of the
    /// HTTP/1.1 library (three per 256 connections), standard streams, and a reserve.
    static func reservedFiles(of files: Int, threads: Int) -> Int {
        32 + 8 * threads + files / 64 + AdminLimits.files
    }

    /// The number of open files needed for this many connections.
    static func files(for connections: Int, threads: Int) -> Int {
        var files = connections + reservedFiles(of: connections, threads: threads)
        while files - reservedFiles(of: files, threads: threads) < connections { files += 1 }
        return files
    }

    /// Log fields if the limit on open files allows fewer connections than configured; otherwise nil.
    func shortage(_ options: Options, _ configuration: Server.Configuration) -> [LogField]? {
        let wanted = options.limits.connections
        guard configuration.limits.connections < wanted else { return nil }
        let needed = MachineLimits.files(for: wanted, threads: configuration.threads)
        return [
            ("max-connections", wanted), ("connections", configuration.limits.connections), ("open-files", openFiles),
            ("needed", needed),
            (
                "advice",
                "raise the limit on open files (ulimit -n \(needed), or LimitNOFILE=\(needed) in the unit), or lower "
                    + "max-connections"
            ),
        ]
    }

    /// Effective values on this machine that differ from the configured ones.
    func effective(_ options: Options, _ configuration: Server.Configuration) -> [String: String] {
        var effective: [String: String] = [:]
        if options.threads == nil { effective["threads"] = "\(configuration.threads) here" }
        if options.memory == nil { effective["memory"] = "\(configuration.limits.memory) bytes here" }
        if configuration.limits.connections < options.limits.connections {
            effective["max-connections"] = "\(configuration.limits.connections), limited by open files"
        }
        return effective
    }
}

extension Server.Configuration {
    /// The configuration of a broker. Everything that settings only name, such as files, is read here: at the start, by
    /// -t, and at each reload before anything changes. If it throws, the error is reported and nothing changes.
    init(_ options: Options, path: String?, machine: MachineLimits) throws(UsageError) {
        var loaded = Loaded()
        loaded.options = options
        try self.init(loaded, path: path, machine: machine)
    }

    init(_ loaded: Loaded, path: String?, machine: MachineLimits) throws(UsageError) {
        let options = loaded.options
        self.init(listen: options.listen, http: options.http, limits: options.limits, drainTime: options.drainTime)
        admin = options.admin
        hostNames = options.hostNames
        do throws(AccessError) {
            access = try options.access.rules(beside: path)
        } catch {
            throw UsageError(loaded.place(of: error))
        }
        // If HTTP needs no credentials, a foreign web page could use it through its visitors' browsers.
        if access.table.anonymous != nil { limits.http.hosts = HostPolicy(hostNames) }
        allowsAnonymous = options.access.allowsAnonymous
        threads = options.threads ?? min(machine.cpus, Options.threadsRange.upperBound)
        limits.memory = options.memory ?? machine.memory
        let files = Int(clamping: machine.openFiles)
        let reserved = MachineLimits.reservedFiles(of: files, threads: threads)
        // A reserve that would leave next to nothing is cut to three quarters of the files.
        limits.connections = max(1, min(limits.connections, max(files / 4, files - reserved)))
        upstream = try options.upstream.make()
        if let directory = options.store.directory {
            store = (StoreOptions(directory: directory, bytes: UInt64(options.store.bytes)), options.store.interval)
        }
        cleartext = Set(options.tls.cleartext)
        do throws(TLSError) {
            tls = try options.tls.settings.map { (settings) throws(TLSError) in try TLSServer(settings) }
        } catch {
            throw UsageError(error.description)
        }
    }
}
