// Connection: the server's side of one connection of a client.

import JSONParsing

/// A connection to a model.
public struct ConnectionID: Hashable, Sendable, CustomStringConvertible {
    let number: UInt64
    public var description: String { "\(number)" }
}

final class Connection {
    struct Subscription {
        var id: String
        var filter: [String]
        var queue: String?
        var max: Int?
        var delivered = 0
    }

    /// Messages of a lane stay in order: those with one subject, and from one leader if leaders may overtake.
    struct Lane: Hashable {
        var subject: String
        var term: UInt64
    }

    let id: ConnectionID
    var parser: ClientParser
    var output: [UInt8] = []
    private(set) var isOpen = true
    /// Whether nothing arrives any more, in either direction.
    var isPartitioned = false
    var subscriptions: [Subscription] = []
    /// How many messages of each lane are delayed, and when the last of them is due.
    var lanes: [Lane: (count: Int, due: UInt64)] = [:]
    /// When the next PING is due, and how many are unanswered.
    var nextPing: UInt64
    var unanswered = 0

    // What CONNECT says, with the server's defaults
    private(set) var isVerbose = true
    private(set) var isPedantic = true
    private(set) var wantsEcho = true
    private(set) var hasHeaders = false
    private(set) var wantsNoResponders = false

    init(id: ConnectionID, maxPayload: Int, nextPing: UInt64) {
        self.id = id
        parser = ClientParser(maxPayload: maxPayload)
        self.nextPing = nextPing
    }

    func write(_ text: String) { output += text.utf8 }

    func close() {
        isOpen = false
        subscriptions = []
        lanes = [:]
    }

    /// Interprets the JSON of CONNECT.
    /// - Throws: if it is malformed.
    func connect(_ json: [UInt8]) throws(ClientError) {
        guard let root = json.withUnsafeBytes({ JSONDocument($0) })?.root else { throw ClientError() }
        func flag(_ name: String, _ old: Bool) -> Bool {
            guard let value = root[name], value.isBoolean else { return old }
            return value.isTrue
        }
        isVerbose = flag("verbose", isVerbose)
        isPedantic = flag("pedantic", isPedantic)
        wantsEcho = flag("echo", wantsEcho)
        hasHeaders = flag("headers", hasHeaders)
        wantsNoResponders = flag("no_responders", wantsNoResponders)
        guard hasHeaders || !wantsNoResponders else {
            throw ClientError(text: "No Responders Requires Headers Support")
        }
    }

    func subscribe(filter: String, queue: String?, id: String) {
        guard !subscriptions.contains(where: { $0.id == id }) else { return }
        subscriptions.append(Subscription(id: id, filter: Subjects.tokens(filter), queue: queue))
    }

    func unsubscribe(id: String, max: Int?) {
        guard let index = subscriptions.firstIndex(where: { $0.id == id }) else { return }
        if let max, max > subscriptions[index].delivered {
            subscriptions[index].max = max
        } else {
            subscriptions.remove(at: index)
        }
    }

    /// Counts a message of a subscription, and ends it if that was the last one. Returns the bytes to send.
    func take(_ message: Publication, for index: Int) -> [UInt8] {
        subscriptions[index].delivered += 1
        let subscription = subscriptions[index]
        if let max = subscription.max, subscription.delivered >= max { subscriptions.remove(at: index) }
        let reply = message.reply.map { " " + $0 } ?? ""
        var bytes: [UInt8]
        if let headers = message.headers, hasHeaders {
            let size = headers.count + message.payload.count
            bytes = Array("HMSG \(message.subject) \(subscription.id)\(reply) \(headers.count) \(size)\r\n".utf8)
            bytes += headers
        } else {
            bytes = Array("MSG \(message.subject) \(subscription.id)\(reply) \(message.payload.count)\r\n".utf8)
        }
        return bytes + message.payload + [0x0D, 0x0A]
    }
}
