// Assembly: builds up a crowd, one part with each step.

import Core

struct Assembly {
    private let crowd: Crowd
    private let size: Int
    private let loop: Loop
    private let actor: Peer
    private(set) var nextStream: UInt32
    private var count = 0
    private var peers: [Peer] = []

    /// The streams of one connection, or the messages of one read.
    private static let batch = 1000
    private static let batchOfCalls = 100
    /// A topic unrelated to what is counted.
    private static let other = "other"

    init(_ crowd: Crowd, _ size: Int, loop: Loop, actor: Peer, firstStream: UInt32) {
        self.crowd = crowd
        self.size = size
        self.loop = loop
        self.actor = actor
        nextStream = firstStream
    }

    /// Everybody has all permissions; users are distinguished by certificates.
    static func access(_ size: Int) -> AccessTable {
        AccessTable(
            users: (0..<size).map { AccessTable.User(name: user($0), certificate: user($0), permissions: .all) },
            anonymous: .all)
    }

    private static func user(_ index: Int) -> String { "user\(index)" }

    /// Returns false once the crowd is complete.
    mutating func advance() throws(Fault) -> Bool {
        guard count < size else { return false }
        switch crowd {
        case .subscribers: try streams { (stream, frames) throws(Fault) in try frames.subscribe(stream, CostRun.topic) }
        case .block: try streams { (stream, frames) throws(Fault) in try frames.subscribe(stream, CostRun.blocking) }
        case .unasked:
            try streams { (stream, frames) throws(Fault) in
                try frames.subscribe(stream, CostRun.topic + "?buffer=1", n: 1)
            }
        case .full:
            try streams { (stream, frames) throws(Fault) in
                try frames.subscribe(stream, CostRun.topic + "?overflow=block&buffer=1", n: 1)
            }
        case .matching: try streams { (stream, frames) throws(Fault) in try frames.subscribe(stream, ">") }
        case .patterns:
            let count = count
            try streams { (stream, frames) throws(Fault) in try frames.subscribe(stream, "t\(count)-\(stream).>") }
        case .topics:
            let count = count
            try streams { (stream, frames) throws(Fault) in try frames.subscribe(stream, "t\(count)-\(stream)") }
        case .fullTopics: try fullTopics()
        case .channels, .waiting:
            try streams { (stream, frames) throws(Fault) in try frames.channel(stream, CostRun.topic) }
        case .streams: try ownStreams()
        case .calls: try calls()
        case .connections: try connection()
        case .sessions: try session()
        case .users: try connection(user: Assembly.user(count))
        case .retained: try messages()
        }
        return true
    }

    /// The topic and the figure in its `$SYS.topic.info` that shows that all members are there; nil if no figure does.
    var expected: (topic: String, figure: String)? {
        switch crowd {
        case .subscribers, .unasked, .block, .full: (CostRun.topic, "subscriptions")
        case .streams, .calls, .sessions: (Assembly.other, "subscriptions")
        case .channels, .waiting: (CostRun.topic, "publishers")
        case .retained: (CostRun.topic, "retained")
        case .matching, .patterns, .topics, .fullTopics, .connections, .users: nil
        }
    }

    /// The number of subscriptions made.
    var subscriptions: Int {
        switch crowd {
        case .subscribers, .unasked, .block, .full, .matching, .patterns, .topics, .fullTopics, .streams, .calls,
            .sessions:
            count
        case .channels, .waiting, .connections, .users, .retained: 0
        }
    }

    /// One batch of items for each peer, with an item for each of the crowd's channels.
    func items() throws(Fault) -> [(peer: Peer, frames: Frames)] {
        peers.map { peer in
            let frames = Frames()
            for index in 0..<Assembly.batch { frames.item(Assembly.stream(index)) }
            return (peer, frames)
        }
    }

    // MARK: Members

    /// A connection with streams.
    private mutating func streams(_ add: (UInt32, Frames) throws(Fault) -> Void) throws(Fault) {
        let peer = try loop.connect(shard: 0)
        let frames = Frames()
        frames.setup()
        for index in 0..<Assembly.batch { try add(Assembly.stream(index), frames) }
        try step(frames, peer)
        // A refused request gets a response.
        let isSilent = crowd != .channels && crowd != .waiting
        guard peer.taken == 0 || !isSilent else { throw Fault(message: "part of the crowd was refused") }
        peers.append(peer)
        count += Assembly.batch
    }

    private static func stream(_ index: Int) -> UInt32 { 1 + 2 * UInt32(index) }

    /// Each topic has two messages: one delivered, and one that fills the subscription.
    private mutating func fullTopics() throws(Fault) {
        let first = count
        try streams { (stream, frames) throws(Fault) in
            try frames.subscribe(stream, "t\(first)-\(stream)?overflow=block&buffer=1", n: 1)
        }
        let frames = Frames()
        for index in 0..<Assembly.batch {
            for _ in 0..<2 { try frames.fireAndForget(Assembly.stream(0), "t\(first)-\(Assembly.stream(index))") }
        }
        try step(frames, actor)
    }

    private mutating func ownStreams() throws(Fault) {
        let frames = Frames()
        for _ in 0..<Assembly.batch {
            try frames.subscribe(nextStream, Assembly.other)
            nextStream += 2
        }
        try step(frames, actor)
        count += Assembly.batch
    }

    private mutating func calls() throws(Fault) {
        let peer = try loop.connect(shard: 0, wireProtocol: .http)
        var bytes = HTTPClient.opening
        for index in 0..<Assembly.batchOfCalls {
            bytes += HTTPClient.subscribe(Assembly.other, stream: Assembly.stream(index), isBlock: false)
        }
        loop.arrived(Run.lasting { out in bytes.withUnsafeBytes { out.append($0) } }, from: peer)
        try loop.run()
        count += Assembly.batchOfCalls
    }

    private mutating func connection(user: String? = nil) throws(Fault) {
        let frames = Frames()
        frames.setup()
        try step(frames, try loop.connect(shard: 0, certificate: user))
        count += 1
    }

    private mutating func session() throws(Fault) {
        let peer = try loop.connect(shard: 0)
        let frames = Frames()
        frames.setup(resumeToken: Array("session \(count) of many".utf8))
        try frames.subscribe(1, Assembly.other)
        try step(frames, peer)
        try loop.lose(peer)
        count += 1
    }

    private mutating func messages() throws(Fault) {
        let frames = Frames()
        for _ in 0..<Assembly.batch { try frames.fireAndForget(nextStream, CostRun.topic) }
        try step(frames, actor)
        count += Assembly.batch
    }

    private func step(_ frames: Frames, _ peer: Peer) throws(Fault) {
        let bytes = frames.bytes
        loop.arrived(bytes, from: peer)
        try loop.run()
        bytes.deallocate()
    }
}
