// Subscriptions.empty: for publishers that have nothing to deliver but their end.

extension Subscriptions {
    /// A subscription through which nothing comes, whatever is asked for.
    public static var empty: any Subscription { EmptySubscription.single }

    private final class EmptySubscription: Subscription, CustomStringConvertible, Sendable {
        static let single = EmptySubscription()
        func request(_ demand: Subscribers.Demand) {}
        func cancel() {}
        var description: String { "Empty" }
    }
}
