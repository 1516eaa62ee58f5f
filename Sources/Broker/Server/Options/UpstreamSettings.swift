// UpstreamSettings: the NATS servers that connect this node with others, and which topics are shared over them.

import Configuration
import Core
import EventLoop
import NATS
import TLS
import Upstream

public struct UpstreamSettings: Equatable, Sendable {
    /// URLs of NATS servers; nil for none.
    public var servers: String?
    /// A file with a JWT and a seed, or with a seed alone; nil for none.
    public var credentials: String?
    /// The authorities of the servers' certificates; nil for those that the system trusts.
    public var authority: String?
    /// The node's certificate and key; nil for none.
    public var certificate: String?
    public var key: String?
    /// Copies of each new stream.
    public var replicas = 1
    /// How long JetStream may be unreachable before streams end, in nanoseconds.
    public var time: UInt64 = 30 * Setting.second
    public var maxTopics = 1_000

    static let replicasRange = 1...5

    public init() {}

    /// The upstream's configuration, with what its files contain; nil if no servers are set.
    func make() throws(UsageError) -> UpstreamConfiguration? {
        guard let servers = servers.flatMap({ try? NATSServers(parsing: $0) }) else { return nil }
        var connection = NATSOptions(name: "forebayd", version: forebayVersion)
        // A connection to a server that hangs is closed after 20 to 30 s.
        connection.limits.pingInterval = 10 * Setting.second
        if let credentials { connection.credentials = try UpstreamSettings.readCredentials(credentials) }
        var options = UpstreamOptions(servers: servers, connection: connection)
        options.replicas = replicas
        options.time = time
        options.maxTopics = maxTopics
        var settings = TLSClientSettings()
        settings.authority = authority
        settings.certificate = certificate
        settings.key = key
        do throws(TLSError) {
            return UpstreamConfiguration(options: options, tls: try TLSContext(settings))
        } catch {
            throw UsageError("TLS for NATS: \(error.description)")
        }
    }

    private static func readCredentials(_ path: String) throws(UsageError) -> NATSCredentials {
        guard let file = Machine.bytes(ofFile: path, limit: NATSCredentials.maxFile + 1) else {
            throw UsageError("upstream-credentials \(path): the file cannot be read")
        }
        do throws(NATSError) {
            let hasJWT = String(decoding: file, as: UTF8.self).contains("JWT")
            return hasJWT ? try NATSCredentials(credentialsFile: file) : try NATSCredentials(seedFile: file)
        } catch {
            throw UsageError("upstream-credentials \(path): \(error.sentence)")
        }
    }
}

/// How the node reaches NATS.
struct UpstreamConfiguration: Sendable {
    var options: UpstreamOptions
    var tls: TLSContext
}

extension Options {
    /// Settings of the upstream that contradict each other.
    func upstreamFaults(_ subject: (String) -> String) -> [String] {
        var faults: [String] = []
        if upstream.servers == nil, !limits.shared.isEmpty {
            faults.append("\(subject("shared")) needs NATS servers: also set upstream")
        }
        if upstream.certificate == nil, upstream.key != nil {
            faults.append("\(subject("upstream-key")) needs the key's certificate: also set upstream-cert")
        }
        if upstream.certificate != nil, upstream.key == nil {
            faults.append("\(subject("upstream-cert")) needs the certificate's key: also set upstream-key")
        }
        if let pattern = limits.shared.first(where: \.isOfBroker) {
            faults.append("\(subject("shared")): \(pattern) matches only the broker's own topics, which are not shared")
        }
        for (name, patterns) in [("durable", limits.durable), ("relaxed", limits.relaxed)] {
            faults += Options.overlaps(subject("shared"), limits.shared, subject(name), patterns)
        }
        return faults
    }
}

extension Setting {
    static let upstream: [Setting] = [
        value("upstream", "URL,…", \.upstream.servers, "NATS servers over which topics are shared") {
            text throws(ValueFault) in
            do throws(NATSError) {
                _ = try NATSServers(parsing: text)
            } catch {
                throw ValueFault("is not a list of NATS servers: \(error.sentence)")
            }
            return text
        } write: {
            $0 ?? ""
        }.secret,
        .file(
            "upstream-credentials", \.upstream.credentials,
            "file with a NATS user's JWT and seed, or with a seed alone"),
        .file("upstream-ca", \.upstream.authority, "certificate authorities for NATS servers, in PEM"),
        .file("upstream-cert", \.upstream.certificate, "this node's certificate for NATS servers, in PEM"),
        .file("upstream-key", \.upstream.key, "private key of upstream-cert, in PEM"),
        patterns("shared", \.limits.shared, "topics that are shared with other nodes over NATS JetStream"),
        number(
            "shared-replicas", \.upstream.replicas, in: UpstreamSettings.replicasRange,
            "copies of a new shared topic's stream in the NATS cluster"),
        number(
            "max-shared-topics", \.upstream.maxTopics, in: 1...1_000_000,
            "shared topics that this node uses at the same time"),
        time(
            "upstream-time", \.upstream.time, in: second...hour,
            "how long NATS JetStream may be unreachable before subscriptions of shared topics end"),
    ]
}
