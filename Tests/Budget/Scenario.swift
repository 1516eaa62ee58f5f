// Scenario: a workload for the engine.

struct Scenario {
    /// The unit of a figure.
    enum Unit: String {
        /// A message accepted by a subscriber's socket.
        case delivery
        /// A message that a publisher sent, whatever its outcome.
        case message
        case keepalive
    }

    /// How much of each publisher's input one read brings.
    enum Read {
        case messages(Int)
        /// As much as the loop reads at a time, which splits the last frame.
        case quantum
    }

    /// What is read.
    enum Source {
        /// One publisher per topic, on a channel under the broker's credit.
        case channels(Read)
        /// One publisher per topic, with the given number of acknowledged publishes per read.
        case acknowledged(Int)
        /// Like `acknowledged`, with fire-and-forget publishes.
        case fired(Int)
        /// Like `acknowledged`, with POSTs over HTTP/2.
        case posted(Int)
        /// A KEEPALIVE from each subscriber, all of them in one turn.
        case keepalives
    }

    var name: String
    var title: String
    var unit = Unit.delivery
    var source = Source.channels(.messages(100))
    var shards = 1
    var topics = 1
    /// Per topic, one connection each.
    var subscribers = 1
    /// Further subscribers per topic, whose sockets accept nothing.
    var stalled = 0
    var payload = 128
    /// The number of messages requested at a time; when half of them are used, more are requested. Nil requests all.
    var window: Int?
    /// Whether each subscriber has a different stream id, none of which is the usual one.
    var ownStreams = false
    /// The options of a subscriber's route.
    var options = Scenario.unlimited
    var hasMetadata = false
    /// Whether subscribers ask for a pattern that all topics match; `subscribers` is then their number.
    var isPattern = false
    /// Whether subscribers use gRPC.
    var isGRPC = false
    /// Reads per publisher: first those before counting begins, which bring everything to its final size; then those
    /// that are counted.
    var warmUp = 50
    var rounds: Int

    /// Nothing is dropped: publishers are held back first.
    static let unlimited = "overflow=block&buffer=1000000"
    /// The same for patterns, which cannot hold publishers back: the buffer is large enough.
    static let unlimitedPattern = "overflow=drop-oldest&buffer=1000000"
}

enum Catalogue {
    static let scenarios: [Scenario] = [
        Scenario(name: "fanout-1", title: "1 subscriber, 128 bytes, 100 a read", subscribers: 1, rounds: 300),
        Scenario(name: "fanout-10", title: "10 subscribers, 128 bytes, 100 a read", subscribers: 10, rounds: 300),
        Scenario(name: "fanout-100", title: "100 subscribers, 128 bytes, 100 a read", subscribers: 100, rounds: 200),
        Scenario(
            name: "single-100", title: "100 subscribers, 128 bytes, 1 a read", source: .channels(.messages(1)),
            subscribers: 100, rounds: 300),
        Scenario(
            name: "fanout-1-full", title: "1 subscriber, 128 bytes, reads of 128 KiB", source: .channels(.quantum),
            subscribers: 1, warmUp: 10, rounds: 40),
        Scenario(
            name: "fanout-10-full", title: "10 subscribers, 128 bytes, reads of 128 KiB", source: .channels(.quantum),
            subscribers: 10, warmUp: 10, rounds: 40),
        Scenario(
            name: "fanout-100-full", title: "100 subscribers, 128 bytes, reads of 128 KiB",
            source: .channels(.quantum), subscribers: 100, warmUp: 10, rounds: 40),
        Scenario(
            name: "streams-100", title: "100 subscribers, each on another stream id, 100 a read", subscribers: 100,
            ownStreams: true, warmUp: 10, rounds: 60),
        Scenario(
            name: "window-100", title: "100 subscribers, credit window 256 refilled at half, 100 a read",
            subscribers: 100, window: 256, rounds: 100),
        Scenario(
            name: "window-100-full", title: "100 subscribers, credit window 256 refilled at half, reads of 128 KiB",
            source: .channels(.quantum), subscribers: 100, window: 256, warmUp: 10, rounds: 20),
        Scenario(
            name: "meta-10", title: "10 subscribers with meta=on, 100 a read", subscribers: 10,
            options: Scenario.unlimited + "&meta=on", hasMetadata: true, warmUp: 20, rounds: 40),
        Scenario(
            name: "small-10", title: "10 subscribers, 16 bytes, 900 a read", source: .channels(.messages(900)),
            subscribers: 10, payload: 16, warmUp: 10, rounds: 40),
        Scenario(
            name: "acked-64", title: "acknowledged publishes, 64 a read, 1 subscriber", unit: .message,
            source: .acknowledged(64), subscribers: 1, warmUp: 30, rounds: 100),
        Scenario(
            name: "fired-64", title: "fire-and-forget publishes, 64 a read, 1 subscriber", unit: .message,
            source: .fired(64),
            subscribers: 1, warmUp: 30, rounds: 100),
        Scenario(
            name: "grpc-10", title: "10 gRPC subscribers, 128 bytes, 100 a read", subscribers: 10, isGRPC: true,
            rounds: 200),
        Scenario(
            name: "grpc-100", title: "100 gRPC subscribers, 128 bytes, 100 a read", subscribers: 100, isGRPC: true,
            rounds: 100),
        Scenario(
            name: "grpc-single-100", title: "100 gRPC subscribers, 128 bytes, 1 a read",
            source: .channels(.messages(1)), subscribers: 100, isGRPC: true, rounds: 200),
        Scenario(
            name: "grpc-100-full", title: "100 gRPC subscribers, 128 bytes, reads of 128 KiB",
            source: .channels(.quantum), subscribers: 100, isGRPC: true, warmUp: 10, rounds: 20),
        Scenario(
            name: "posted-64", title: "publishes by POST, 64 a read, 1 subscriber", unit: .message,
            source: .posted(64), subscribers: 1, warmUp: 30, rounds: 100),
        Scenario(
            name: "keepalive", title: "KEEPALIVE of 100 connections, answered", unit: .keepalive, source: .keepalives,
            subscribers: 100, warmUp: 10, rounds: 100),
        Scenario(
            name: "patterns-100", title: "10 topics, 10 a read each, 100 subscribers of a pattern",
            source: .channels(.messages(10)), topics: 10, subscribers: 100, options: Scenario.unlimitedPattern,
            isPattern: true, warmUp: 10, rounds: 30),
        Scenario(
            name: "patterns-window", title: "10 topics, 10 a read each, 100 subscribers of a pattern, credit window 16",
            source: .channels(.messages(10)), topics: 10, subscribers: 100, window: 16,
            options: Scenario.unlimitedPattern, isPattern: true, warmUp: 10, rounds: 30),
        Scenario(
            name: "stalled-10", title: "1 subscriber reading, 10 stalled with drop-oldest, 100 a read", unit: .message,
            subscribers: 1, stalled: 10, options: "overflow=drop-oldest&buffer=1000", warmUp: 60, rounds: 200),
        Scenario(
            name: "shards-2", title: "8 topics with 20 subscribers each, over 2 shards, 100 a read", shards: 2,
            topics: 8, subscribers: 20, warmUp: 10, rounds: 60),
    ]
}
