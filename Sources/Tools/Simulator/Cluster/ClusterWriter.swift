// ClusterWriter: a publisher of a cluster. With numbers, it repeats a message at any node until it has an answer;
// without, each message is sent once.

import ForebayWire

final class ClusterWriter {
    private let name: String
    private let isNumbered: Bool
    private let world: ClusterWorld
    private let nodes: [ClusterBroker]
    private var connection: ClusterConnection?
    /// The message without an answer, and whether it was sent on this connection.
    private(set) var waiting: ClusterMessage?
    private var isSent = false
    /// A topic may forget the publisher, which then begins as another one.
    private var lives: [String: (life: Int, number: UInt64)] = [:]
    private var texts = 0

    init(_ number: Int, isNumbered: Bool, _ world: ClusterWorld, _ nodes: [ClusterBroker]) {
        name = "\(isNumbered ? "p" : "m")\(number)"
        self.isNumbered = isNumbered
        self.world = world
        self.nodes = nodes
    }

    var description: String { "\(name) waits for \(waiting?.text ?? "nothing")" }

    /// Publishes a message, unless one has no answer yet.
    func publish() {
        guard waiting == nil else { return }
        let topic = world.chance.pick(world.topics)
        if isNumbered {
            let (life, number) = lives[topic] ?? (1, 1)
            let publisher = "\(name).\(life)"
            waiting = ClusterMessage(topic: topic, publisher: publisher, number: number, text: "\(publisher).\(number)")
        } else {
            texts += 1
            waiting = ClusterMessage(topic: topic, publisher: "", number: nil, text: "\(name).\(texts)")
        }
        isSent = false
        if let waiting { world.journal.sent(waiting) }
    }

    func step() {
        connection?.read(world.journal.referee) { take($0) }
        if connection?.isClosed ?? false {
            connection = nil
            lost()
        }
        guard let message = waiting, !isSent else { return }
        // From time to time it goes elsewhere, without need.
        if connection == nil || world.chance.isOne(in: 16) {
            connection?.close()
            connection = world.chance.pick(nodes).open()
        }
        guard let connection else { return }
        world.note("\(name) publishes \(message.text) to '\(message.topic)'")
        let number = message.number.map { "?publisher=\(message.publisher)&number=\($0)" } ?? ""
        connection.ask(message.topic + number, message.text)
        isSent = true
    }

    /// Whether the message was published is unknown.
    private func lost() {
        isSent = false
        if !isNumbered { waiting = nil }
    }

    private func take(_ arrival: ClusterConnection.Arrival) {
        switch arrival {
        case .message(let metadata, let data):
            guard let message = waiting, isSent else {
                return world.journal.referee.fail("\(name) has an answer to nothing")
            }
            accept(message, String(decoding: data, as: UTF8.self), isDuplicate: metadata != nil)
        case .completion: break
        case .error(let text):
            if let message = waiting { refuse(message, text) }
        }
    }

    private func accept(_ message: ClusterMessage, _ text: String, isDuplicate: Bool) {
        waiting = nil
        if let number = message.number { lives[message.topic, default: (1, 1)].number = number + 1 }
        guard let sequence = UInt64(text) else {
            return world.journal.referee.fail("\(name) was answered with '\(text)'")
        }
        if isDuplicate {
            world.journal.duplicate(message, last: sequence)
        } else {
            world.journal.acknowledged(message, at: sequence)
        }
    }

    private func refuse(_ message: ClusterMessage, _ text: String) {
        world.note("\(message.text) was refused: \(text)")
        isSent = false
        switch ErrorWord(beginning: text) {
        case .publisher, .ended:
            world.journal.refused(message, text)
            waiting = nil
            if isNumbered { lives[message.topic] = ((lives[message.topic]?.life ?? 1) + 1, 1) }
        case .unavailable, .blocked, .topicFailed:
            if isNumbered { return }
            world.journal.refused(message, text)
            waiting = nil
        default: world.journal.referee.fail("\(message.text) was refused: \(text)")
        }
    }
}
