// Run: a scenario from its first connection to its figures.

import Bytes
import CAllocations
import Core
import RSocket

final class Run {
    private let scenario: Scenario
    private let loop: Loop
    private var subscribers: [Peer] = []
    private var publishers: [Publisher] = []
    private let keepalive: UnsafeRawBufferPointer
    private var fault: Fault?

    /// The size in bytes of a KEEPALIVE without data.
    private static let keepaliveSize = 17
    /// The broker's metadata entry with `meta=on`: its MIME type and 32 bytes of figures, each with a length.
    private static let ownEntry = 1 + "application/vnd.forebay.message".utf8.count + 3 + 32

    /// In a subscription to a pattern, the entry that names the topic.
    private static let topicEntry = 1 + "application/vnd.forebay.topic".utf8.count + 3 + topic(0).utf8.count

    init(_ scenario: Scenario) throws(Fault) {
        self.scenario = scenario
        loop = Loop(shards: scenario.shards)
        keepalive = Run.lasting {
            FrameWriter.keepalive(respond: true, position: 0, data: Run.nothing, into: &$0)
        }
        // Subscribers are assigned to the shards in turn, like connections.
        let perTopic = scenario.subscribers + scenario.stalled
        for index in 0..<(scenario.isPattern ? perTopic : scenario.topics * perTopic) {
            try subscribe(index)
        }
        for topic in 0..<scenario.topics {
            var isPost = false
            if case .posted = scenario.source { isPost = true }
            let shard = topic % scenario.shards
            let peer = isPost ? try connectHTTP(shard: shard) : try connect(shard: shard)
            try publish(Publisher(peer, scenario, reads: scenario.warmUp + scenario.rounds), topic)
        }
    }

    /// Runs all rounds and returns the number of units in the counted ones, and their allocations.
    func count() throws(Fault) -> (units: Int, allocations: Int) {
        for _ in 0..<scenario.warmUp { try round() }
        let taken = subscribers.map(\.taken)
        let answered = publishers.map(\.peer.taken)
        let published = publishers.map(\.published)
        let before = allocation_count()
        count_instructions(
            { Unmanaged<Run>.fromOpaque($0!).takeUnretainedValue().counted() },
            Unmanaged.passUnretained(self).toOpaque())
        let allocations = allocation_count() - before
        if let fault { throw fault }
        var messages = 0
        for (publisher, count) in zip(publishers, published) { messages += publisher.published - count }
        let units = try check(
            messages: messages, taken: zip(subscribers, taken).map { $0.taken - $1 },
            answered: zip(publishers, answered).map { $0.peer.taken - $1 })
        return (units, allocations)
    }

    private func counted() {
        do throws(Fault) {
            for _ in 0..<scenario.rounds { try round() }
        } catch {
            fault = error
        }
    }

    private func round() throws(Fault) {
        switch scenario.source {
        case .keepalives: for peer in subscribers { loop.arrived(keepalive, from: peer) }
        case .channels, .acknowledged, .fired, .posted: for publisher in publishers { publisher.send(loop) }
        }
        try loop.run()
    }

    /// Checks that every reading subscriber took every message, and that every publisher was answered, unless it wants
    /// no response.
    private func check(messages: Int, taken: [Int], answered: [Int]) throws(Fault) -> Int {
        let expected = expected(scenario.isPattern ? messages : messages / scenario.topics)
        for (peer, bytes) in zip(subscribers, taken) where !(peer.isStalled ? 0...0 : expected).contains(bytes) {
            throw Fault(message: "a subscriber took \(bytes) bytes instead of \(expected)")
        }
        var isAnswered = true
        if case .fired = scenario.source { isAnswered = false }
        // Whether there are so few messages that too little of a channel's credit is used for another grant.
        var isTooFew = false
        if case .channels = scenario.source { isTooFew = messages < Limits().grant }
        for bytes in answered where messages > 0 && !isTooFew && (bytes > 0) != isAnswered {
            throw Fault(message: isAnswered ? "a publisher was not answered" : "a fire-and-forget publish was answered")
        }
        switch scenario.unit {
        case .delivery: return messages / scenario.topics * scenario.subscribers * scenario.topics
        case .message: return messages
        case .keepalive: return scenario.rounds * subscribers.count
        }
    }

    /// The bytes of the last `messages` messages, as a subscriber takes them.
    private func expected(_ messages: Int) -> ClosedRange<Int> {
        if case .keepalives = scenario.source {
            let bytes = scenario.rounds * Run.keepaliveSize
            return bytes...bytes
        }
        guard scenario.isGRPC else {
            let bytes = messages * Run.delivered(scenario)
            return bytes...bytes
        }
        var bytes = 0
        // The channel's first message came with its request.
        let last = publishers[0].published + 1
        for sequence in (last - messages)..<last {
            bytes += HTTPClient.entry(sequence: UInt64(sequence + 1), payload: scenario.payload)
        }
        return bytes...(bytes + scenario.rounds * Run.responses * HTTPClient.responseOverhead)
    }

    /// The maximum number of responses for the messages of one read.
    private static let responses = 5

    // MARK: Connections

    private func subscribe(_ index: Int) throws(Fault) {
        let isGRPC = scenario.isGRPC
        let shard = index % scenario.shards
        let peer = isGRPC ? try connectHTTP(shard: shard) : try connect(shard: shard)
        let of = scenario.isPattern ? index : index / scenario.topics
        peer.isStalled = of >= scenario.subscribers
        subscribers.append(peer)
        let topic = scenario.isPattern ? ">" : Run.topic(index % scenario.topics)
        guard !isGRPC else { return try exchange(HTTPClient.subscribe(topic), peer) }
        let stream = scenario.ownStreams ? 3 + 2 * UInt32(index) : 1
        var out = ByteBuffer()
        let route = try Run.route(topic + "?" + scenario.options)
        FrameWriter.requestStream(
            stream: stream, initialN: scenario.window.map(UInt32.init) ?? 0x7fff_ffff, metadata: route.readable,
            data: Run.nothing, fragment: 0, into: &out)
        if let window = scenario.window {
            let request = Run.lasting { FrameWriter.requestN(stream: stream, n: 1, into: &$0) }
            peer.refill = CreditWindow(
                window: window, frame: Run.delivered(scenario),
                request: UnsafeMutableRawBufferPointer(mutating: request))
        }
        try exchange(out.readable, peer)
    }

    private func publish(_ publisher: Publisher, _ topic: Int) throws(Fault) {
        let route = try Run.route(Run.topic(topic))
        switch scenario.source {
        case .channels:
            var out = ByteBuffer()
            Run.payload(scenario).withUnsafeBytes {
                FrameWriter.requestChannel(
                    stream: 1, initialN: 1, complete: false, metadata: route.readable, data: $0, fragment: 0, into: &out
                )
            }
            try exchange(out.readable, publisher.peer)
            publisher.prepareItems()
        case .acknowledged(let count): publisher.prepareRequests(route.readable, count: count, isAnswered: true)
        case .fired(let count): publisher.prepareRequests(route.readable, count: count, isAnswered: false)
        case .posted(let count): publisher.preparePosts(Run.topic(topic), count: count)
        case .keepalives: return
        }
        publishers.append(publisher)
    }

    private func connect(shard: Int) throws(Fault) -> Peer {
        let peer = try loop.connect(shard: shard)
        var out = ByteBuffer()
        FrameWriter.setup(SetupRequest(), into: &out)
        try exchange(out.readable, peer)
        return peer
    }

    private func connectHTTP(shard: Int) throws(Fault) -> Peer {
        let peer = try loop.connect(shard: shard, wireProtocol: .http)
        try exchange(HTTPClient.opening, peer)
        return peer
    }

    private func exchange(_ bytes: [UInt8], _ peer: Peer) throws(Fault) {
        try exchange(Run.lasting { out in bytes.withUnsafeBytes { out.append($0) } }, peer)
    }

    private func exchange(_ bytes: UnsafeRawBufferPointer, _ peer: Peer) throws(Fault) {
        loop.arrived(bytes, from: peer)
        try loop.run()
    }

    // MARK: Frames

    static func payload(_ scenario: Scenario) -> [UInt8] { [UInt8](repeating: 0x78, count: scenario.payload) }

    /// Bytes of a message on its way to a subscriber.
    private static func delivered(_ scenario: Scenario) -> Int {
        FrameWriter.payloadSize(
            metadata: scenario.isPattern ? ownEntry + topicEntry : scenario.hasMetadata ? ownEntry : nil,
            data: scenario.payload, fragment: 0)
    }

    /// At most ten topics, so that all names have the same length.
    private static func topic(_ index: Int) -> String { "budget\(index)" }

    static func route(_ route: String) throws(Fault) -> ByteBuffer {
        var out = ByteBuffer()
        do throws(RSocketError) {
            try CompositeMetadata.appendRoute([route], into: &out)
        } catch {
            throw Fault(message: error.message)
        }
        return out
    }

    /// Bytes that stay in memory permanently.
    static func lasting(_ write: (inout ByteBuffer) -> Void) -> UnsafeRawBufferPointer {
        var out = ByteBuffer()
        write(&out)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: out.count, alignment: 16)
        bytes.copyMemory(from: out.readable)
        return UnsafeRawBufferPointer(bytes)
    }

    static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
