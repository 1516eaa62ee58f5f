// Overflow: the policies for what a subscription cannot take, the same for every protocol and every client.

/// What happens to a message that cannot be handed over while as many wait as the subscription's limit allows. The
/// raw values are the numbers of `forebay.v1.Overflow`.
public enum Overflow: UInt8, Sendable, CaseIterable {
    /// The oldest one waiting goes, the arriving one waits.
    case dropOldest
    /// The arriving one is refused.
    case dropNewest
    /// The last one waiting gives way to the arriving one.
    case replaceNewest
    /// Only the newest waits, whatever buffer and replay say.
    case latest
    /// The subscription takes nothing more; what waits is delivered, then it ends with an overflow error.
    case fail
    /// It waits all the same: publishers are granted no more than there is room for.
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

    /// The policy of that name, exactly as `name` spells it.
    public init?(name: some StringProtocol) {
        guard let policy = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = policy
    }
}
