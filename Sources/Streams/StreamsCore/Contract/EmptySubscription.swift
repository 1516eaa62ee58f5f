// Subscriptions.empty: for publishers that deliver only a completion.

extension Subscriptions {
    /// A subscription that ignores requests and never delivers anything.
    public static var empty: any Subscription { EmptySubscription.single }

    private final class EmptySubscription: Subscription, CustomStringConvertible, Sendable {
        static let single = EmptySubscription()
        func request(_ demand: Subscribers.Demand) {}
        func cancel() {}
        var description: String { "Empty" }
    }
}
