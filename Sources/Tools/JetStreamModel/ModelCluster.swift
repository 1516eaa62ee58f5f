// ModelCluster: a NATS cluster with JetStream, in memory, without I/O, clocks and threads. Bytes and times go in; bytes
// come out. It is written from captures of nats-server 2.15.1, apart from this project's client, so that each can prove
// the other wrong. Everything that is random comes from the seed.
//
//     receive --operations--> publish ----subscriptions---> route -> deliver (now or later) -> takeOutput
//                               |------$JS.API.>----> answer -> an answer -^
//                               '------streams------> propose -> commit -> acknowledgement, republished message -^
//
// This file has the interface; see Protocol, Streams, API and Faults for the rest.

import Bytes

/// A model of a cluster. All times are nanoseconds of one monotonic clock. No input makes it trap.
public final class ModelCluster {
    public let options: ModelOptions
    /// What fails by chance from now on.
    public var faults: ModelFaults
    /// What fails next.
    public var planned = PlannedFaults()
    /// Whether JetStream answers. If not, requests get "temporarily unavailable", and publishes "no responders".
    public var isJetStreamAvailable = true
    /// Publishes that were acknowledged, in the order of the acknowledgements.
    public internal(set) var acknowledged: [Acknowledged] = []
    /// Messages that streams have lost, by a fault, after they were stored.
    public internal(set) var lost: [StoredMessage] = []

    var chance: Chance
    private(set) var now: UInt64 = 0
    private(set) var connections: [Connection] = []
    var streams: [String: Stream] = [:]
    var timeline = Timeline()
    private var connected: UInt64 = 0
    private var isLameDuck = false

    public init(seed: UInt64, options: ModelOptions = ModelOptions()) {
        self.options = options
        faults = options.faults
        chance = Chance(seed: seed)
    }

    // MARK: Connections

    /// Accepts a connection. The server's INFO is its first output.
    public func connect(now: UInt64) -> ConnectionID {
        advance(to: now)
        connected += 1
        let connection = Connection(
            id: ConnectionID(number: connected), maxPayload: options.maxPayload, nextPing: pingTime())
        connections.append(connection)
        writeInfo(to: connection)
        return connection.id
    }

    /// Takes what a client sent.
    public func receive(_ bytes: some Sequence<UInt8>, on id: ConnectionID, now: UInt64) {
        advance(to: now)
        guard let connection = connection(id), connection.isOpen, !connection.isPartitioned else { return }
        connection.parser.append(bytes)
        do throws(ClientError) {
            while connection.isOpen, let operation = try connection.parser.next() {
                try interpret(operation, on: connection)
            }
        } catch {
            close(connection, error.text)
        }
    }

    /// Removes and returns what the server has sent on a connection. It can also be called after the server has closed
    /// the connection.
    public func takeOutput(of id: ConnectionID) -> [UInt8] {
        guard let connection = connection(id), !connection.isPartitioned else { return [] }
        defer { connection.output = [] }
        return connection.output
    }

    /// The client closes the connection.
    public func disconnect(_ id: ConnectionID) {
        connections.removeAll { $0.id == id }
    }

    /// Whether the connection is open, as far as the client can know: one that is partitioned is.
    public func isOpen(_ id: ConnectionID) -> Bool {
        guard let connection = connection(id) else { return false }
        return connection.isOpen || connection.isPartitioned
    }

    // MARK: Time

    /// When to call `tick`; nil for never.
    public var deadline: UInt64? {
        var times = [timeline.first].compactMap(\.self)
        if options.pingInterval > 0 { times += connections.filter(\.isOpen).map(\.nextPing) }
        times += streams.values.compactMap { stream in
            stream.expiry.map { expiry in
                let left = expiry.subtractingReportingOverflow(wallTime(of: stream))
                return left.overflow || left.partialValue < 0 ? now : now.addingClamped(UInt64(left.partialValue))
            }
        }
        return times.min()
    }

    /// Does what is due.
    public func tick(now: UInt64) { advance(to: now) }

    /// Does what is due until `time`, each at its time.
    private func advance(to time: UInt64) {
        while let due = timeline.first, due <= time, let event = timeline.removeFirst() {
            now = max(now, due)
            carryOut(event)
        }
        now = max(now, time)
        for name in streamNames {
            guard let stream = streams[name] else { continue }
            let time = wallTime(of: stream)
            if let expiry = stream.expiry, expiry <= time { stream.applyLimits(now: time) }
        }
        guard options.pingInterval > 0 else { return }
        for connection in connections where connection.isOpen && connection.nextPing <= now { ping(connection) }
    }

    private func carryOut(_ event: Timeline.Event) {
        switch event {
        case .deliver(let bytes, let id, let lane):
            guard let connection = connection(id) else { return }
            if let delayed = connection.lanes[lane] {
                connection.lanes[lane] = delayed.count > 1 ? (delayed.count - 1, delayed.due) : nil
            }
            write(bytes, to: connection)
        case .commit(let stream, let number): commit(number, in: stream)
        }
    }

    private func pingTime() -> UInt64 { now.addingClamped(max(1, options.pingInterval)) }

    private func ping(_ connection: Connection) {
        guard connection.unanswered < 2 else { return close(connection, "Stale Connection") }
        connection.unanswered += 1
        connection.nextPing = pingTime()
        write(Array("PING\r\n".utf8), to: connection)
    }

    /// The clock of a stream's leader, in nanoseconds since 1970.
    func wallTime(of stream: Stream?) -> Int64 {
        options.wallClock &+ Int64(min(now, 1 << 61)) &+ (stream?.clockOffset ?? 0)
    }

    // MARK: State

    /// A stream as its leader has it; nil if there is none.
    public func stream(named name: String) -> StreamTruth? {
        streams[name].map {
            StreamTruth(
                configuration: $0.configuration, messages: $0.messages, lastSequence: $0.lastSequence,
                uncommitted: $0.proposals.count)
        }
    }

    /// The names of all streams, sorted.
    public var streamNames: [String] { streams.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }

    /// The stream that stores messages with a subject; nil if there is none.
    public func streamName(for subject: String) -> String? {
        let tokens = Subjects.tokens(subject)
        return streamNames.first { streams[$0]?.takes(tokens) == true }
    }

    func connection(_ id: ConnectionID) -> Connection? { connections.first { $0.id == id } }

    // MARK: INFO

    private func writeInfo(to connection: Connection) {
        var writer = JSONWriter()
        writer.put("server_id", "NMODEL")
        writer.put("server_name", "n1")
        writer.put("version", "2.15.1")
        writer.put("proto", 1)
        writer.put("go", "go1.27.2")
        writer.put("host", "127.0.0.1")
        writer.put("port", 4222)
        writer.put("headers", true)
        writer.put("max_payload", options.maxPayload)
        writer.put("jetstream", true)
        if isLameDuck { writer.put("ldm", true) }
        writer.put("client_id", connection.id.number)
        writer.put("client_ip", "127.0.0.1")
        if options.servers > 1 { writer.put("cluster", "C") }
        writer.put("api_lvl", 5)
        write(Array("INFO \(writer.object) \r\n".utf8), to: connection)
    }

    /// Announces to all clients that their server is about to shut down.
    public func enterLameDuckMode(now: UInt64) {
        advance(to: now)
        isLameDuck = true
        for connection in connections where connection.isOpen { writeInfo(to: connection) }
        isLameDuck = false
    }
}
