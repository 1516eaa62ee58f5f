// Options: what forebayd runs with, whatever said so. The table in Settings.swift tells how each field is set.

import Core
import EventLoop
import HTTP2

public struct Options: Equatable, Sendable {
    /// Where RSocket clients connect, and where HTTP clients do; nil turns the listener off.
    public var listen: Endpoint? = WireProtocol.rsocket.defaultEndpoint
    public var http: Endpoint? = WireProtocol.http.defaultEndpoint
    /// Where the admin listener is; nil turns it off.
    public var admin: Endpoint? = Options.defaultAdmin
    /// Names under which HTTP and the admin listener may be asked, beside addresses and localhost.
    public var hostNames = HostPolicy.Names.listed([])
    /// Certificate and key of the listeners.
    public var tls = TLSOptions()
    /// Event-loop threads; nil for one per CPU.
    public var threads: Int?
    /// Bytes of all logs and queues; nil for a quarter of what the cgroup or machine has.
    public var memory: Int?
    /// Who may do what.
    public var access = AccessOptions()
    /// Nanoseconds that a drain may take.
    public var drainTime: UInt64 = 10 * Setting.second
    public var logLevel = LogRecord.Level.info
    public var logFormat = LogFormat.text
    /// All but `memory`, which depends on the machine.
    public var limits = Limits()

    public static let defaultAdmin = Endpoint(host: "127.0.0.1", port: 7692)
    static let threadsRange = 1...256
    static let retainRange = 1...Int(Int32.max)
    static let retainBytesRange = (4 << 10)...(1 << 40)
    static let retainAgeRange = 100 * Setting.millisecond...10 * Setting.year
    static let memoryRange = (16 << 20)...(1 << 46)
    static let mostOrigins = 64

    public init() {}

    /// What does not go together, each as a sentence. `subject` says a setting as whoever set it wrote it:
    /// "--listen off".
    func faults(_ subject: (String) -> String) -> [String] {
        var faults: [String] = []
        if listen == nil, http == nil {
            faults.append(
                "\(subject("listen")) and \(subject("http")) leave nothing to listen on: give one of them an address")
        }
        for (one, other) in [("listen", "http"), ("listen", "admin"), ("http", "admin")] {
            guard let a = self[listener: one], let b = self[listener: other], a.overlaps(b) else { continue }
            faults.append("\(subject(one)) and \(subject(other)) are the same: give them different ports")
        }
        faults += tls.faults(subject)
        if limits.payload > limits.reassembly {
            faults.append(
                "\(subject("max-payload")) is more than \(subject("max-unfinished")): a message in fragments would "
                    + "never be complete")
        }
        return faults
    }
}

extension Endpoint {
    /// One of them alone can be listened on.
    fileprivate func overlaps(_ other: Endpoint) -> Bool {
        guard port != 0, port == other.port, host.contains(":") == other.host.contains(":") else { return false }
        return host == other.host || [host, other.host].contains { $0 == "0.0.0.0" || $0 == "::" }
    }
}
