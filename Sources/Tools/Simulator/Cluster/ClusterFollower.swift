// ClusterFollower: a subscriber to all topics of a cluster that match a pattern. Whenever its node does not serve it,
// it resumes at another node, after the last message of each topic.

import Core
import ForebayWire

final class ClusterFollower {
    private let name: String
    private let pattern: TopicPattern
    private let options: String
    private let world: ClusterWorld
    private let nodes: [ClusterBroker]
    private var connection: ClusterConnection?
    private var asked = 0
    private var received = 0
    private var isEager = false
    private let isLatest: Bool
    /// The last message of each topic, at which it resumes.
    private var places: [String: Place] = [:]
    /// The last sequence of each epoch on this connection, or the one after which the connection resumed. What waits of
    /// a deleted topic takes turns with what the next one has.
    private var last: [UInt64: UInt64] = [:]

    init(_ number: Int, _ world: ClusterWorld, _ nodes: [ClusterBroker]) {
        name = "follower-\(number)"
        guard let pattern = try? TopicPattern(parsing: world.chance.pick([">", "*", "b.*"])) else {
            preconditionFailure("One of these is not a pattern.")
        }
        self.pattern = pattern
        self.world = world
        self.nodes = nodes
        let buffer = world.chance.pick([1, 3, 50, 1024])
        isLatest = world.chance.isOne(in: 2)
        options = "replay=all&overflow=\(isLatest ? "latest" : "drop-oldest")&buffer=\(buffer)"
    }

    var description: String { "\(name) of '\(pattern)' is at \(places.sorted { $0.key < $1.key })" }

    /// Whether it has all messages of all topics.
    var isAtRest: Bool {
        world.topics.filter(pattern.matches).allSatisfy { topic in
            guard let (epoch, stream) = world.stream(of: topic),
                let sequence = world.journal.lastMessage(of: stream)
            else { return true }
            guard let last = last[epoch] else { return false }
            return last == sequence || last > stream.lastSequence && world.journal.isDamaged(epoch)
        }
    }

    /// From now on it requests and reads everything at once. It resumes: what it has lost is only reported with the
    /// topic's next message, and there may be none.
    func hurry() {
        isEager = true
        connection?.close()
        connection = nil
    }

    func step() {
        guard let connection, !connection.isClosed else { return connect() }
        if !isEager, !world.chance.isOne(in: 2) { return }
        connection.read(world.journal.referee) { take($0) }
        if !isEager, world.chance.isOne(in: 64) { return leave(connection) }
        if isEager ? asked < Int(UInt32.max >> 1) : world.chance.isOne(in: 8) { request(connection) }
    }

    /// From time to time it goes elsewhere, without need.
    private func leave(_ connection: ClusterConnection) {
        connection.close()
        self.connection = nil
    }

    private func request(_ connection: ClusterConnection) {
        let n = isEager ? Int(UInt32.max >> 1) : world.chance.size(upTo: 40)
        asked += n
        connection.request(n)
    }

    private func connect() {
        let node = world.chance.pick(nodes)
        guard let fresh = node.open() else { return }
        connection = fresh
        fresh.narrow(to: world.chance.pick([.max, .max, 300]))
        received = 0
        asked = world.chance.size(upTo: 40)
        last = Dictionary(places.values.map { ($0.epoch, $0.sequence) }, uniquingKeysWith: max)
        let positions = places.sorted { $0.key < $1.key }
            .map { #""\#($0.key)": ["\#($0.value.epoch)", \#($0.value.sequence + 1)]"# }
            .joined(separator: ", ")
        world.note("\(name) subscribes to '\(pattern)?\(options)' at \(node.name): {\(positions)}")
        fresh.subscribe("\(pattern)?\(options)", n: asked, data: positions.isEmpty ? "" : "{\(positions)}")
    }

    private func take(_ arrival: ClusterConnection.Arrival) {
        switch arrival {
        case .message(let metadata, let data):
            guard let position = MessagePosition(metadata, namesTopic: true), let topic = position.topic,
                pattern.matches(topic), world.topics.contains(topic)
            else { return world.journal.referee.fail("\(name) received a message without its metadata, or its topic") }
            take(position, of: topic, String(decoding: data, as: UTF8.self))
        case .completion: world.journal.referee.fail("\(name) was completed")
        case .error(let text): fail(text)
        }
    }

    /// Without NATS, a node does not know which shared topics match.
    private func fail(_ text: String) {
        world.note("\(name) failed: \(text)")
        connection?.close()
        connection = nil
        let isRefused = ErrorWord(beginning: text) == .unavailable && received == 0
        world.journal.referee.expect(isRefused, "\(name) was ended: \(text)")
    }

    private func take(_ position: MessagePosition, of topic: String, _ text: String) {
        let journal = world.journal
        let (epoch, sequence) = (position.epoch, position.sequence)
        received += 1
        world.note("\(name) received \(sequence) of '\(topic)' in \(epoch), dropped \(position.dropped)")
        journal.referee.expect(received <= asked, "\(name) received \(received) messages, but requested \(asked)")
        if let place = places[topic], place.epoch != epoch { journal.began(topic) }
        if let last = last[epoch] {
            guard sequence > last else {
                return journal.referee.fail("\(name) received \(sequence) of '\(topic)' in \(epoch) after \(last)")
            }
            journal.skipped(last + 1..<sequence, of: epoch, lost: Int(position.dropped))
        } else if !isLatest {
            // A replay with overflow=latest begins with the newest message, and reports no others.
            journal.skippedAtStart(before: sequence, of: epoch, lost: Int(position.dropped))
        }
        journal.received(text, at: sequence, of: epoch)
        last[epoch] = sequence
        places[topic] = Place(epoch: epoch, sequence: sequence)
    }
}
