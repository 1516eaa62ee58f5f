// Options: the settings that forebayd runs with, from any source. The table in Settings.swift defines how each is set.

import Core
import EventLoop
import HTTP2

public struct Options: Equatable, Sendable {
    /// Addresses for RSocket and HTTP clients; nil turns the listener off.
    public var listen: Endpoint? = WireProtocol.rsocket.defaultEndpoint
    public var http: Endpoint? = WireProtocol.http.defaultEndpoint
    /// Address of the admin listener; nil turns it off.
    public var admin: Endpoint? = Options.defaultAdmin
    /// Host names that HTTP and the admin listener accept, besides addresses and localhost.
    public var hostNames = HostPolicy.Names.listed([])
    /// Certificate and key of the listeners.
    public var tls = TLSOptions()
    /// Number of event-loop threads; nil is one per CPU.
    public var threads: Int?
    /// Bytes of all logs and queues; nil is a quarter of the memory of the cgroup or machine.
    public var memory: Int?
    /// Users and permissions.
    public var access = AccessOptions()
    /// Maximum nanoseconds for draining.
    public var drainTime: UInt64 = 10 * Setting.second
    public var logLevel = LogRecord.Level.info
    public var logFormat = LogFormat.text
    /// Where topics are stored.
    public var store = StoreSettings()
    /// How topics are shared with other nodes.
    public var upstream = UpstreamSettings()
    /// All limits except `memory`, which depends on the machine.
    public var limits = Limits()

    public static let defaultAdmin = Endpoint(host: "127.0.0.1", port: 7692)
    static let threadsRange = 1...256
    static let retainRange = 1...Int(Int32.max)
    static let retainBytesRange = (4 << 10)...(1 << 40)
    static let retainAgeRange = 100 * Setting.millisecond...10 * Setting.year
    static let memoryRange = (16 << 20)...(1 << 46)
    static let mostOrigins = 64

    public init() {}

    /// Settings that contradict each other, each as a sentence. `subject` returns a setting as it was written:
    /// "--listen off".
    func faults(_ subject: (String) -> String) -> [String] {
        var faults: [String] = []
        if listen == nil, http == nil {
            faults.append(
                "\(subject("listen")) and \(subject("http")) leave nothing to listen on: set one of them to an address")
        }
        for (one, other) in [("listen", "http"), ("listen", "admin"), ("http", "admin")] {
            guard let a = self[listener: one], let b = self[listener: other], a.overlaps(b) else { continue }
            faults.append("\(subject(one)) and \(subject(other)) are the same: choose different ports")
        }
        faults += tls.faults(subject)
        faults += storeFaults(subject)
        faults += upstreamFaults(subject)
        if limits.payload > limits.reassembly {
            faults.append(
                "\(subject("max-payload")) is more than \(subject("max-unfinished")): a fragmented message could "
                    + "never be completed")
        }
        return faults
    }
}

extension Endpoint {
    /// Whether only one of the two endpoints can be bound.
    fileprivate func overlaps(_ other: Endpoint) -> Bool {
        guard port != 0, port == other.port, host.contains(":") == other.host.contains(":") else { return false }
        return host == other.host || [host, other.host].contains { $0 == "0.0.0.0" || $0 == "::" }
    }
}
