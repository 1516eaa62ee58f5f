// ClusterReader: a subscriber to a topic of a cluster. Whenever its node does not serve it, it resumes at another node,
// after the last message received.

import Core
import ForebayWire

final class ClusterReader {
    private let name: String
    private let topic: String
    private let options: String
    private let world: ClusterWorld
    private let nodes: [ClusterBroker]
    private var connection: ClusterConnection?
    private var asked = 0
    private var received = 0
    /// Whether it requests and reads everything at once.
    var isEager = false
    private(set) var last: Place?
    /// Whether the topic has ended for this subscriber.
    private(set) var isOver = false

    init(_ number: Int, _ world: ClusterWorld, _ nodes: [ClusterBroker]) {
        name = "reader-\(number)"
        self.world = world
        self.nodes = nodes
        topic = world.chance.pick(world.topics)
        let buffer = world.chance.pick([1, 3, 50, 1024])
        options = "meta=on&overflow=\(world.chance.pick(["drop-oldest", "latest"]))&buffer=\(buffer)"
    }

    var description: String { "\(name) of '\(topic)' is at \(last.map { "\($0)" } ?? "nothing")" }

    /// Whether it has everything that the topic has, and the topic's end.
    var isAtRest: Bool {
        guard !isOver, let (epoch, stream) = world.stream(of: topic) else { return true }
        if stream.configuration.metadata["forebay-end"] != nil { return false }
        guard let sequence = world.journal.lastMessage(of: stream) else { return true }
        guard let last, last.epoch == epoch else { return false }
        // If all nodes were restarted since the stream lost its tail, only this client could know of it. It waits.
        return last.sequence == sequence || last.sequence > stream.lastSequence && world.journal.isDamaged(epoch)
    }

    func step() {
        if isOver { return }
        guard let connection, !connection.isClosed else { return connect() }
        if !isEager, !world.chance.isOne(in: 2) { return }
        connection.read(world.journal.referee) { take($0) }
        if isEager ? asked < Int(UInt32.max >> 1) : world.chance.isOne(in: 8) { request(connection) }
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
        let start = last.map { "from=\($0.sequence + 1)&epoch=\($0.epoch)" } ?? "replay=all"
        world.note("\(name) subscribes to '\(topic)' at \(node.name): \(start)")
        fresh.subscribe("\(topic)?\(options)&\(start)", n: asked)
    }

    private func take(_ arrival: ClusterConnection.Arrival) {
        switch arrival {
        case .message(let metadata, let data):
            guard let position = MessagePosition(metadata) else {
                return world.journal.referee.fail("\(name) received a message without its metadata")
            }
            take(position, String(decoding: data, as: UTF8.self))
        case .completion: end(.completed)
        case .error(let text): fail(text)
        }
    }

    private func take(_ position: MessagePosition, _ text: String) {
        let journal = world.journal
        received += 1
        journal.referee.expect(received <= asked, "\(name) received \(received) messages, but requested \(asked)")
        if let last, last.epoch == position.epoch {
            guard position.sequence > last.sequence else {
                return journal.referee.fail("\(name) received \(position.sequence) after \(last)")
            }
            journal.skipped(last.sequence + 1..<position.sequence, of: last.epoch, lost: Int(position.dropped))
        } else if last != nil {
            journal.began(topic)
        }
        journal.received(text, at: position.sequence, of: position.epoch)
        last = Place(epoch: position.epoch, sequence: position.sequence)
    }

    private func end(_ end: SharedEnd) {
        world.note("\(name) was notified of the end: \(end)")
        isOver = true
        if let last { world.journal.ended(topic, last.epoch, end) }
        connection?.close()
    }

    private func fail(_ text: String) {
        world.note("\(name) failed: \(text)")
        connection?.close()
        connection = nil
        switch ErrorWord(beginning: text) {
        case .topicFailed where text.contains("deleted"): last = nil
        case .topicFailed: end(.failed("why"))
        case .unavailable: break
        default: world.journal.referee.fail("\(name) was refused: \(text)")
        }
    }
}
