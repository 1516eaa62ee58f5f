// PublishOptions: the options of a publishing channel.

struct PublishOptions: Sendable {
    static let names = ["complete", "on-loss"] + ofSingles
    /// The options of an acknowledged publish.
    static let ofSingles = ["publisher", "number"]

    /// Whether the channel's COMPLETE completes the topic, and its ERROR fails it.
    var completesTopic = false
    /// Whether a lost connection also fails the topic.
    var lossFailsTopic = false

    init(completesTopic: Bool = false, lossFailsTopic: Bool = false) {
        self.completesTopic = completesTopic
        self.lossFailsTopic = lossFailsTopic
    }

    init(_ route: Route) throws(Refusal) {
        try route.expect(PublishOptions.names, for: "a publishing channel")
        completesTopic = try route.choice("complete", [("true", true), ("false", false)]) ?? false
        lossFailsTopic = try route.choice("on-loss", [("fail", true), ("end", false)]) ?? false
    }
}
