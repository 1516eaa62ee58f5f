// Overflow: the overflow policies of subscriptions, the same in every protocol and client.

/// What happens to a message that arrives when a subscription's buffer is full. The raw values are the numbers of
/// `forebay.v1.Overflow`.
public enum Overflow: UInt8, Sendable, CaseIterable {
    /// The oldest waiting message is dropped to make room.
    case dropOldest
    /// The arriving message is dropped.
    case dropNewest
    /// The arriving message replaces the last waiting message.
    case replaceNewest
    /// Only the newest message waits, whatever buffer and replay are set to.
    case latest
    /// The subscription accepts no more messages; waiting ones are delivered, then it ends with an overflow error.
    case fail
    /// The message waits anyway: publishers are granted only as much credit as there is room.
    case block

    /// The policy's name in the options of a subscription.
    public var name: String {
        switch self {
        case .dropOldest: "drop-oldest"
        case .dropNewest: "drop-newest"
        case .replaceNewest: "replace-newest"
        case .latest: "latest"
        case .fail: "fail"
        case .block: "block"
        }
    }

    /// The policy with exactly this name.
    public init?(name: some StringProtocol) {
        guard let policy = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = policy
    }
}
