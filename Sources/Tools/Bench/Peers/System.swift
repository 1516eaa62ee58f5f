// System: the systems compared, and how each is started: with its default settings, on one address and port, and
// without persistence unless the contender stores messages. Other settings are changed only so that nothing is lost or
// disconnected during throughput measurements.

import Glibc

enum System: String, CaseIterable {
    case forebay, pump, nats, redis, mosquitto
    /// Forebay over HTTP: subscribers use gRPC and publishers RSocket, or requests are POSTs.
    case forebayHTTP = "forebay-http"
    /// A minimal gRPC server in Python, on gRPC's C core.
    case grpcio
    // File servers.
    case nghttpd, h2o
    /// A database that commits in this process: what storing messages costs without a broker.
    case lmdb

    /// The systems that carry messages.
    static let brokers = allCases.filter { !$0.servesFiles && $0 != .lmdb }

    var servesFiles: Bool { self == .nghttpd || self == .h2o }

    /// Whether subscribers use a separate port.
    var hasTwoPorts: Bool { self == .forebayHTTP || self == .grpcio }

    var wire: any Wire {
        switch self {
        case .forebay: return RSocketWire()
        case .forebayHTTP: return GRPCWire(publishers: RSocketWire())
        case .grpcio: return GRPCWire(publishers: BareWire())
        case .nghttpd, .h2o: preconditionFailure("A file server has no subscribers.")
        case .lmdb: preconditionFailure("A database has no subscribers.")
        case .pump: return PumpWire()
        case .nats: return NATSWire()
        case .redis: return RedisWire()
        case .mosquitto: return MQTTWire()
        }
    }

    /// The command that prints the version.
    var versionArguments: [String] {
        switch self {
        case .forebay, .forebayHTTP, .nats, .redis, .nghttpd, .h2o: return ["--version"]
        case .grpcio: return [Launch.grpcioServer, "--version"]
        case .mosquitto: return ["-h"]
        case .pump: return ["pump", "--version"]
        case .lmdb: return ["lmdb", "--version"]
        }
    }
}

/// When a message is written to disk.
enum Storage: String {
    /// Before it is acknowledged.
    case synced
    /// Within 100 ms (relaxed topics of Forebay), a second (Redis) or two minutes (NATS), the defaults.
    case unsynced
}

/// What the subscribers of many topics ask for.
enum Interest: String {
    /// A pattern, in one subscription.
    case pattern
    /// Each topic, in a subscription of its own.
    case topics = "each topic"
    /// The same, with metadata, of which messages of a pattern always have some.
    case topicsMeta = "each topic, meta"
}

/// One side of a comparison: a system, and how it is run.
struct Contender {
    var system: System
    /// Event-loop threads of Forebay; other systems use their defaults.
    var threads = 1
    /// Additional subscribers that never read.
    var stalled = 0
    /// Overrides the case's number of subscribers.
    var subscribers: Int?
    /// Idle topics with a subscription each, and connections that subscribe and cancel.
    var otherTopics = 0
    var churners = 0
    /// Subscriptions to patterns that match none of the case's topics.
    var otherPatterns = 0
    /// What subscribers of many topics ask for.
    var interest = Interest.pattern
    /// How the library reads messages.
    var taking: Taking?
    /// Additional arguments for Forebay.
    var arguments: [String] = []
    /// Whether publishes are acknowledged: NATS with JetStream.
    var acknowledges = false
    /// If messages are stored: Forebay's durable and relaxed topics, JetStream's files, Redis's append-only file.
    var storage: Storage?
    /// The pattern of Forebay's stored topics.
    var stored = ">"
    /// Whether Forebay's topics are shared over nats-server. Publishers publish to the topics' streams, as other nodes
    /// would.
    var isShared = false
    /// The number of connections that must be possible.
    var connections = 1024
    /// Bytes of a payload, passed to the grpcio server.
    var payload = 128
    /// The most messages in a response of grpcio.
    var perResponse = 1

    var wire: any Wire { isShared ? SharedWire() : system.wire }

    var name: String {
        var name = system.rawValue
        if threads > 1 { name += " \(threads) threads" }
        if stalled > 0 { name += " +\(stalled) stalled" }
        if let subscribers { name += " \(subscribers) subscribers" }
        if otherTopics > 0 { name += " +\(otherTopics) topics" }
        if otherPatterns > 0 { name += " +\(otherPatterns) patterns" }
        if interest != .pattern { name += " \(interest.rawValue)" }
        if churners > 0 { name += " +\(churners) churning" }
        if let storage { name += " \(storage.rawValue)" }
        if isShared { name += " shared" }
        if let taking { name += " \(taking.rawValue)" }
        if perResponse > 1 { name += " ×\(perResponse)" }
        return name
    }
}

/// The paths of programs.
struct Programs {
    var paths: [System: String]

    func path(_ system: System) -> String { paths[system == .forebayHTTP ? .forebay : system] ?? system.rawValue }
}

/// How to start a contender: its arguments, and a configuration file if needed.
struct Launch {
    var arguments: [String]
    var configuration: String?

    static let configurationFile = "bench.conf"
    /// Absolute, because brokers run in their own directories.
    static let grpcioServer = Files.absolute("Bench/grpcio_server.py")
    /// The file that file servers serve.
    static let file = "file"

    /// A server of NATS with JetStream, for shared topics.
    ///
    /// - Parameter cluster: the ports for servers, its own and all of them; nil if it is the only one.
    init(_ name: String, port: UInt16, monitor: UInt16, cluster: (own: UInt16, all: [UInt16])?) {
        arguments = ["-c", Launch.configurationFile]
        // The limit is that of all streams together, which are limited in bytes.
        var text = """
            server_name: \(name)
            listen: 127.0.0.1:\(port)
            http: 127.0.0.1:\(monitor)
            ping_interval: "1h"
            jetstream: { store_dir: "store", max_mem: 1G, max_file: 1T }

            """
        if let cluster {
            let routes = cluster.all.map { "\"nats://127.0.0.1:\($0)\"" }.joined(separator: ", ")
            text +=
                "cluster: { name: bench, listen: 127.0.0.1:\(cluster.own), no_advertise: true, routes: [\(routes)] }\n"
        }
        configuration = text
    }

    init(_ contender: Contender, port: UInt16, subscriberPort: UInt16) {
        switch contender.system {
        case .forebay, .forebayHTTP:
            arguments = [
                "--listen", "127.0.0.1:\(port)", "--http",
                contender.system == .forebay ? "off" : "127.0.0.1:\(subscriberPort)", "--admin", "off",
                "--threads", String(contender.threads), "--log-level", "warn",
            ]
            if let storage = contender.storage {
                arguments += ["--store", "store", storage == .synced ? "--durable" : "--relaxed", contender.stored]
            }
            arguments += contender.arguments
        case .grpcio:
            arguments = [Launch.grpcioServer, "\(subscriberPort)", "\(port)", "\(contender.payload)"]
            arguments.append("\(contender.perResponse)")
        case .nghttpd:
            arguments = ["--no-tls", "--workers=1", "--htdocs=.", "--address=127.0.0.1", "\(port)"]
        case .h2o:
            arguments = ["-c", Launch.configurationFile]
            // If started by root, the server would switch to a user that cannot read the directory.
            configuration = """
                listen: { host: 127.0.0.1, port: \(port) }
                num-threads: 1
                \(geteuid() == 0 ? "user: root" : "")
                hosts:
                  default:
                    paths:
                      /:
                        file.dir: .

                """
        case .pump:
            arguments = ["pump", String(port)]
        case .lmdb: preconditionFailure("A database is not started.")
        case .nats:
            arguments = ["-c", Launch.configurationFile]
            // Only one PING per hour, because the generator does not answer.
            configuration = "listen: 127.0.0.1:\(port)\nping_interval: \"1h\"\n"
            if contender.acknowledges || contender.storage != nil {
                let sync = contender.storage == .synced ? ", sync_interval: always" : ""
                configuration! += "jetstream: { store_dir: \"store\", max_mem: 1G, max_file: 1G\(sync) }\n"
            }
        case .redis:
            arguments = [
                "--bind", "127.0.0.1", "--port", String(port), "--save", "", "--maxclients",
                String(max(10_000, contender.connections + 100)), "--appendonly",
                contender.storage == nil ? "no" : "yes",
                "--appendfsync", contender.storage == .synced ? "always" : "everysec",
            ]
        case .mosquitto:
            arguments = ["-c", Launch.configurationFile]
            // By default this broker silently drops messages once 1,000 wait for a subscriber.
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
