// Node: an upstream with one shard, connected to a model of NATS. It plays the shard: it keeps what the upstream
// reports about one topic, and checks that it is in order.

import Bytes
import Core
import JetStreamModel
import NATS
import Replay
import Testing

@testable import Upstream

final class Node {
    static let millisecond: UInt64 = 1_000_000

    let upstream: Upstream
    private let cluster: ModelCluster
    private let name: String
    private let use: TopicUse
    private(set) var connection: JetStreamModel.ConnectionID?
    /// Whether NATS cannot be reached.
    var isCutOff = false
    private var lastTicket: UInt64 = 0
    /// The messages by sequence, in the order in which they were reported.
    private(set) var received: [(sequence: UInt64, text: String)] = []
    private(set) var next: SequenceNumber?
    private(set) var epoch: UInt64 = 0
    private(set) var isCurrent = false
    private(set) var lost: [UInt64] = []
    private(set) var left: [Refusal] = []
    private(set) var isAbsent = false
    private(set) var log: [LogRecord] = []
    /// How the topic has ended, and this node's request that ended it.
    private(set) var ended: [(end: SharedEnd, by: PublishTicket?)] = []
    /// Why ends and look-ups have failed.
    private(set) var failed: [PublishTicket: Refusal] = [:]
    /// Takes the reports instead.
    var observer: ((UpstreamReport) -> Void)?
    /// The texts of messages that the topic had already.
    private(set) var duplicates: [String: UInt64] = [:]
    private(set) var found: [PublishTicket: SharedProgress?] = [:]
    /// The text of each message that waits, and the sequences of those that do not wait any longer.
    private(set) var waiting: [PublishTicket: String] = [:]
    private(set) var placed: [String: UInt64] = [:]
    private(set) var refused: [String: Refusal] = [:]

    /// - Parameter time: seconds without NATS after which the topic is left.
    init(
        _ name: String, _ cluster: ModelCluster, topic: String = "t", seed: UInt64, time: UInt64, now: UInt64
    ) throws {
        self.name = name
        self.cluster = cluster
        use = TopicUse(topic: topic, number: 1)
        var connection = NATSOptions(name: name, version: "1")
        connection.limits.connectTime = 1_000 * Node.millisecond
        var options = UpstreamOptions(servers: try NATSServers(parsing: "nats://a"), connection: connection)
        options.time = time * 1_000 * Node.millisecond
        upstream = Upstream(options, shards: 1, seed: seed, now: now)
    }

    func join(retain: Int = 100_000, now: UInt64) {
        let retention = Retention(messages: retain, bytes: 1 << 30, age: 0)
        upstream.handle([.join(use, retention)], from: 0, now: now)
    }

    /// Publishes a message and returns its text.
    @discardableResult
    func publish(chain: PublishTicket? = nil, now: UInt64) -> PublishTicket {
        lastTicket += 1
        let ticket = PublishTicket(lastTicket)
        let text = "\(name).\(lastTicket)"
        waiting[ticket] = text
        Array(text.utf8).withUnsafeBytes { payload in
            upstream.handle(
                [
                    .publish(
                        SharedPublish(use: use, ticket: ticket, chain: chain, metadata: nil, payload: payload))
                ], from: 0, now: now)
        }
        return ticket
    }

    /// Publishes a numbered message, whose text names the publisher and the number.
    @discardableResult
    func publish(_ publisher: String, _ number: UInt64, chain: PublishTicket? = nil, now: UInt64) -> PublishTicket {
        lastTicket += 1
        let ticket = PublishTicket(lastTicket)
        waiting[ticket] = "\(publisher).\(number)"
        Array("\(publisher).\(number)".utf8).withUnsafeBytes { payload in
            upstream.handle(
                [
                    .publish(
                        SharedPublish(
                            use: use, ticket: ticket, chain: chain, publisher: [0] + publisher.utf8, number: number,
                            metadata: nil, payload: payload))
                ], from: 0, now: now)
        }
        return ticket
    }

    /// Whether it has received the message, or knows that it is in the stream.
    func has(_ text: String) -> Bool {
        placed[text] != nil || duplicates[text] != nil || received.contains { $0.text == text }
    }

    /// Looks up the last message of a publisher.
    func find(_ publisher: String, now: UInt64) -> PublishTicket {
        lastTicket += 1
        let ticket = PublishTicket(lastTicket)
        upstream.handle([.find(use, ticket, publisher: [0] + publisher.utf8)], from: 0, now: now)
        return ticket
    }

    @discardableResult
    func end(_ end: SharedEnd, now: UInt64) -> PublishTicket {
        lastTicket += 1
        let ticket = PublishTicket(lastTicket)
        upstream.handle([.end(use, ticket, end)], from: 0, now: now)
        return ticket
    }

    func breakConnection(now: UInt64) {
        guard let connection else { return }
        cluster.disconnect(connection)
        self.connection = nil
        upstream.closed("The test closed the connection.", now: now)
    }

    /// Exchanges bytes and reports until there are none.
    func run(now: UInt64) {
        var isBusy = true
        while isBusy {
            isBusy = false
            for action in upstream.takeActions() {
                isBusy = true
                switch action {
                case .connect where isCutOff: upstream.closed("The test allows no connection.", now: now)
                case .connect:
                    connection = cluster.connect(now: now)
                    upstream.opened(now: now)
                case .close:
                    if let connection { cluster.disconnect(connection) }
                    connection = nil
                case .startTLS: Issue.record("there is no TLS here")
                }
            }
            guard let connection else { break }
            let pending = [UInt8](upstream.pending)
            if !pending.isEmpty {
                isBusy = true
                cluster.receive(pending, on: connection, now: now)
                upstream.sent(pending.count, now: now)
            }
            let output = cluster.takeOutput(of: connection)
            if !output.isEmpty {
                isBusy = true
                output.withUnsafeBytes { upstream.received($0, now: now) }
            }
            if !cluster.isOpen(connection), self.connection == connection {
                isBusy = true
                self.connection = nil
                upstream.closed("The NATS server closed the connection.", now: now)
            }
        }
        upstream.takeReports { reports, _ in
            for report in reports { if let observer { observer(report) } else { take(report) } }
        }
        log += upstream.takeLog()
    }

    func tick(now: UInt64) { if upstream.deadline <= now { upstream.tick(now: now) } }

    private func lose(upTo end: SequenceNumber) {
        guard let next, end > next else { return }
        lost += next.value..<end.value
        self.next = end
    }

    /// Whether the stream has a control message with that sequence, or no longer has the message.
    private func isForNodes(_ sequence: UInt64) -> Bool {
        let message = cluster.stream(named: "FB_\(epoch)")?[sequence]
        return message.map { String(decoding: $0.headers ?? [], as: UTF8.self).contains("Forebay-Control") } ?? true
    }

    private func take(_ report: UpstreamReport) {
        switch report {
        case .joined(_, let epoch, let next):
            self.epoch = epoch
            self.next = next
        case .current: isCurrent = true
        case .absent: isAbsent = true
        case .ended(_, let end, let ticket): ended.append((end, ticket))
        case .found(_, let ticket, let last): found[ticket] = .some(last)
        case .duplicate(_, let ticket, let last):
            guard let text = waiting.removeValue(forKey: ticket) else {
                Issue.record("\(name): \(ticket) was answered before")
                return
            }
            duplicates[text] = last.value
        case .messages(_, let batch):
            batch.forEach(lost: { lose(upTo: $0) }) { item, _, payload in
                guard let next, item.sequence >= next else {
                    Issue.record("\(name): \(item.sequence) comes again, or before the topic was joined")
                    return
                }
                for missing in next.value..<item.sequence.value where !isForNodes(missing) {
                    Issue.record("\(name): \(missing) is missing before \(item.sequence)")
                }
                self.next = item.sequence.advanced(by: 1)
                received.append((item.sequence.value, payload.text))
                guard let ticket = item.ticket, let text = waiting.removeValue(forKey: ticket) else { return }
                #expect(text == payload.text)
                placed[text] = item.sequence.value
            }
        case .refused(_, let ticket, let refusal):
            if let text = waiting.removeValue(forKey: ticket) {
                refused[text] = refusal
            } else {
                failed[ticket] = refusal
            }
        case .left(_, let refusal):
            left.append(refusal)
            next = nil
            isCurrent = false
        case .followed, .heard, .matched, .unlisted: Issue.record("\(name) has no subscription to a pattern")
        }
    }
}
