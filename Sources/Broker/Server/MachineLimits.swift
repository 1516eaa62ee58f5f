// MachineLimits: what a configuration leaves to the machine, and what the machine cuts short.

import Access
import Core
import EventLoop
import HTTP2
import TLS

struct MachineLimits: Equatable, Sendable {
    var openFiles: UInt64
    var cpus: Int
    /// Bytes of memory to use unless told otherwise.
    var memory: Int

    /// Raises the limit on open files as far as it goes.
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

    /// File descriptors that are not for connections: listeners, epoll and event descriptors of each thread – its own
    /// and those of the library that has HTTP/1.1, three for 256 connections –, standard streams, and some to spare.
    static func reservedFiles(of files: Int, threads: Int) -> Int {
        32 + 8 * threads + files / 64 + AdminLimits.files
    }

    /// Open files that so many connections take.
    static func files(for connections: Int, threads: Int) -> Int {
        var files = connections + reservedFiles(of: connections, threads: threads)
        while files - reservedFiles(of: files, threads: threads) < connections { files += 1 }
        return files
    }

    /// For the log, where there are to be more connections than the open files allow; else nil.
    func shortage(_ options: Options, _ configuration: Server.Configuration) -> [LogField]? {
        let wanted = options.limits.connections
        guard configuration.limits.connections < wanted else { return nil }
        let needed = MachineLimits.files(for: wanted, threads: configuration.threads)
        return [
            ("max-connections", wanted), ("connections", configuration.limits.connections), ("open-files", openFiles),
            ("needed", needed),
            (
                "advice",
                "raise the limit on open files (ulimit -n \(needed), LimitNOFILE=\(needed) of a unit), or lower "
                    + "max-connections"
            ),
        ]
    }

    /// What settings come to here where that is not what is written.
    func effective(_ options: Options, _ configuration: Server.Configuration) -> [String: String] {
        var effective: [String: String] = [:]
        if options.threads == nil { effective["threads"] = "\(configuration.threads) here" }
        if options.memory == nil { effective["memory"] = "\(configuration.limits.memory) bytes here" }
        if configuration.limits.connections < options.limits.connections {
            effective["max-connections"] = "\(configuration.limits.connections) for want of open files"
        }
        return effective
    }
}

extension Server.Configuration {
    /// What a broker is to run with. This is the place for what settings only name, such as the contents of files: it
    /// is made at the start, by -t and at each reload before anything changes, and what it throws is told and changes
    /// nothing.
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
        // Whoever can use HTTP without saying who it is, a page of somebody else's can by way of its visitors.
        if access.table.anonymous != nil { limits.http.hosts = HostPolicy(hostNames) }
        allowsAnonymous = options.access.allowsAnonymous
        threads = options.threads ?? min(machine.cpus, Options.threadsRange.upperBound)
        limits.memory = options.memory ?? machine.memory
        let files = Int(clamping: machine.openFiles)
        let reserved = MachineLimits.reservedFiles(of: files, threads: threads)
        // Where what is reserved would leave next to nothing, not all of it is in use.
        limits.connections = max(1, min(limits.connections, max(files / 4, files - reserved)))
        cleartext = Set(options.tls.cleartext)
        do throws(TLSError) {
            tls = try options.tls.settings.map { (settings) throws(TLSError) in try TLSServer(settings) }
        } catch {
            throw UsageError(error.description)
        }
    }
}
