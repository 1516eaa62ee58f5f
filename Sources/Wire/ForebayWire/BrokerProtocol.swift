// BrokerProtocol: the version of the protocol, its features, and the options that a broker may ignore.

/// What a broker reports about its protocol in `$SYS.info`, so that clients can decide what to use.
public enum BrokerProtocol {
    /// Incremented with each change that could cause errors in clients written for an earlier number.
    public static let number = 1

    /// Parts of the protocol that not every broker has. The raw values are the names in `$SYS.info`.
    public enum Feature: String, CaseIterable, Sendable {
        /// Options of control requests may be in the request's data.
        case controlData = "control-data"
        /// Subscriptions may ask for an opening with `opening=on`.
        case opening
        /// RSocket connections can be resumed.
        case resume
        /// Subscriptions may begin at a time, with `since`.
        case since
    }

    /// The names of the features, in alphabetical order.
    /// - Parameter resumes: whether this broker's configuration allows connections to be resumed.
    public static func features(resumes: Bool) -> [String] {
        Feature.allCases.filter { $0 != .resume || resumes }.map(\.rawValue)
    }

    /// Whether a broker that does not know this option ignores it instead of refusing the request.
    public static func isIgnorable(option name: some StringProtocol) -> Bool { name.hasPrefix("x-") }
}

/// Where a subscription begins, as the broker reports it before the first message.
public struct OpeningPosition: Equatable, Sendable {
    /// The topic's epoch; never 0.
    public var epoch: UInt64
    /// The sequence at which the subscription begins: of the first retained message that it receives, or of the next
    /// message of its topic.
    public var next: UInt64

    public init(epoch: UInt64, next: UInt64) {
        self.epoch = epoch
        self.next = next
    }
}
