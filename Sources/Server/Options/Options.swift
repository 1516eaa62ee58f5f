// Options: forebayd's command line, read with getopt_long.

import Core
import EventLoop
import HTTP2

/// A command line that cannot be obeyed. `description` is a sentence that tells what to write instead.
public struct UsageError: Error, Equatable, CustomStringConvertible, Sendable {
    public var description: String

    init(_ description: String) { self.description = description }
}

/// What forebayd was told to do.
public enum Invocation: Equatable, Sendable {
    case run(Options)
    case help
    case version
}

/// The options of a run. Nil stands for what depends on the machine.
public struct Options: Equatable, Sendable {
    /// Where RSocket clients connect, and where HTTP clients do; nil turns the listener off.
    public var listen: Endpoint? = Face.rsocket.defaultEndpoint
    public var http: Endpoint? = Face.http.defaultEndpoint
    /// Where the admin listener is; nil turns it off.
    public var admin: Endpoint? = Options.defaultAdmin
    /// Names under which HTTP and the admin listener may be asked, beside addresses and localhost.
    public var hostNames = HostPolicy.Names.listed([])
    /// Event-loop threads; nil for one per CPU.
    public var threads: Int?
    /// Messages, and bytes, that a topic retains.
    public var retain: Int = Limits().retain
    public var retainBytes: Int = Limits().retainBytes
    /// Bytes of all logs and queues; nil for a quarter of what the cgroup or machine has.
    public var memory: Int?
    /// Pages that may use HTTP, beside the broker's own.
    public var origins = CORSPolicy.Origins.none
    public var logLevel = LogRecord.Level.info
    public var logFormat = LogFormat.text

    public static let defaultAdmin = Endpoint(host: "127.0.0.1", port: 7692)
    static let threadsRange = 1...256
    static let retainRange = 1...Int(Int32.max)
    static let retainBytesRange = (4 << 10)...(1 << 40)
    static let memoryRange = (16 << 20)...(1 << 46)
    static let mostOrigins = 64

    public init() {}

    /// Reads a command line, `arguments[0]` being the command's own name. Not to be called from two threads at once:
    /// getopt keeps its place in global variables.
    public static func parse(_ arguments: [String]) throws(UsageError) -> Invocation {
        var options = Options()
        var scanner = OptionScanner(arguments)
        while let (name, value) = try scanner.next() {
            switch name {
            case "help": return .help
            case "version": return .version
            default: try options.set(name, to: value)
            }
        }
        try options.checkListeners()
        return .run(options)
    }

    private func checkListeners() throws(UsageError) {
        guard let one = listen ?? http else {
            throw UsageError("--listen off and --http off leave nothing to listen on: give one of them an address")
        }
        if listen == http, one.port != 0 {
            throw UsageError("--listen and --http are both \(one): give them different ports")
        }
    }

    private mutating func set(_ name: String, to value: String) throws(UsageError) {
        switch name {
        case "listen": listen = try Options.endpoint(name, value)
        case "http": http = try Options.endpoint(name, value)
        case "threads": threads = try Options.number(name, value, in: Options.threadsRange)
        case "retain": retain = try Options.number(name, value, in: Options.retainRange)
        case "retain-bytes": retainBytes = try Options.size(name, value, in: Options.retainBytesRange)
        case "memory": memory = try Options.size(name, value, in: Options.memoryRange)
        case "allow-origin": try allow(value)
        case "log-level":
            guard let level = LogRecord.Level(name: value) else {
                throw UsageError("--log-level \(value) is none of debug, info, warn, error")
            }
            logLevel = level
        case "log-format":
            guard let format = LogFormat(rawValue: value) else {
                throw UsageError("--log-format \(value) is neither text nor json")
            }
            logFormat = format
        case "admin": admin = try Options.endpoint(name, value)
        case "host-name": try addHostName(value)
        case "config", "test":
            throw UsageError("this version reads no configuration file: give options instead of -c and -t")
        default: preconditionFailure("option \(name) is in the table but is not read")
        }
    }

    /// Each time it is given, one more origin.
    private mutating func allow(_ origin: String) throws(UsageError) {
        if origin == "*" {
            origins = .any
            return
        }
        guard CORSPolicy.isOrigin(origin) else {
            throw UsageError(
                "--allow-origin \(origin) is no origin: write it as browsers do, for example https://example.org, or *")
        }
        switch origins {
        case .any: break
        case .none: origins = .listed([origin])
        case .listed(let list):
            guard list.count < Options.mostOrigins else {
                throw UsageError("--allow-origin is given more than \(Options.mostOrigins) times")
            }
            origins = .listed(list + [origin])
        }
    }

    /// Each time it is given, one more name.
    private mutating func addHostName(_ text: String) throws(UsageError) {
        if text == "*" {
            hostNames = .any
            return
        }
        let name = text.lowercased()
        guard HostPolicy.isName(name) else {
            throw UsageError(
                "--host-name \(text) is no host's name: write it without port, for example broker.example.org, or *")
        }
        guard case .listed(let list) = hostNames else { return }
        guard list.count < Options.mostOrigins else {
            throw UsageError("--host-name is given more than \(Options.mostOrigins) times")
        }
        hostNames = .listed(list + [name])
    }

    private static func endpoint(_ name: String, _ value: String) throws(UsageError) -> Endpoint? {
        if value == "off" { return nil }
        do throws(SystemError) {
            return try Endpoint(parsing: value)
        } catch {
            throw UsageError("--\(name): \(error)")
        }
    }

    private static func number(
        _ name: String, _ value: String, in range: ClosedRange<Int>
    ) throws(UsageError) -> Int {
        guard let number = Int(value), range.contains(number) else {
            throw UsageError("--\(name) \(value) is no number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    private static func size(_ name: String, _ value: String, in range: ClosedRange<Int>) throws(UsageError) -> Int {
        guard let size = parseByteSize(value), range.contains(size) else {
            let bounds = "\(formatByteSize(range.lowerBound)) to \(formatByteSize(range.upperBound))"
            throw UsageError("--\(name) \(value) is no size from \(bounds), for example 64M or 1G")
        }
        return size
    }
}
