// System: what is compared, and how each is started: as its makers deliver it, on one address and port, without
// persistence. What is set beside that is set so that nothing is lost or ended while throughput is measured.

enum System: String, CaseIterable {
    case forebay, pump, nats, redis, mosquitto

    var wire: any Wire {
        switch self {
        case .forebay: return RSocketWire()
        case .pump: return PumpWire()
        case .nats: return NATSWire()
        case .redis: return RedisWire()
        case .mosquitto: return MQTTWire()
        }
    }

    /// The command that prints the version.
    var versionArguments: [String] {
        switch self {
        case .forebay: return ["--version"]
        case .nats, .redis: return ["--version"]
        case .mosquitto: return ["-h"]
        case .pump: return ["pump", "--version"]
        }
    }
}

/// One side of a comparison: a system, and what is particular about how it is run.
struct Contender {
    var system: System
    /// Event-loop threads of Forebay; the others are as they are.
    var threads = 1
    /// Subscribers that never read, beside the others.
    var stalled = 0
    /// More arguments for Forebay.
    var arguments: [String] = []
    /// NATS with JetStream.
    var acknowledges = false
    /// Connections that must be possible.
    var connections = 1024

    var name: String {
        var name = system.rawValue
        if threads > 1 { name += " \(threads) threads" }
        if stalled > 0 { name += " +\(stalled) stalled" }
        return name
    }
}

/// Where programs are.
struct Programs {
    var paths: [System: String]

    func path(_ system: System) -> String { paths[system] ?? system.rawValue }
}

/// How to start a contender: arguments, and a configuration file if it wants one.
struct Launch {
    var arguments: [String]
    var configuration: String?

    static let configurationFile = "bench.conf"

    init(_ contender: Contender, port: UInt16) {
        switch contender.system {
        case .forebay:
            arguments = [
                "--listen", "127.0.0.1:\(port)", "--http", "off", "--threads", String(contender.threads),
                "--log-level", "warn",
            ]
            arguments += contender.arguments
        case .pump:
            arguments = ["pump", String(port)]
        case .nats:
            arguments = ["-c", Launch.configurationFile]
            // A PING every hour: the generator does not answer.
            configuration = "listen: 127.0.0.1:\(port)\nping_interval: \"1h\"\n"
            if contender.acknowledges {
                configuration! += "jetstream: { store_dir: \"store\", max_mem: 1G, max_file: 1G }\n"
            }
        case .redis:
            arguments = [
                "--bind", "127.0.0.1", "--port", String(port), "--save", "", "--appendonly", "no", "--maxclients",
                String(max(10_000, contender.connections + 100)),
            ]
        case .mosquitto:
            arguments = ["-c", Launch.configurationFile]
            // By default it drops messages once 1,000 wait for a subscriber, without telling.
            configuration = """
                listener \(port) 127.0.0.1
                allow_anonymous true
                persistence false
                max_queued_messages 0
                log_dest none

                """
        }
    }
}
