// Prefetching: publishers that are worth asking for several values at a time, as those of a broker are, and operators
// that pass this on.

/// A publisher that may know how many values are worth asking for in advance. One by one, each would cost the time that
/// a demand takes to the source and a value back.
package protocol PrefetchingPublisher {
    /// At least 1; nil where one at a time is as good.
    var prefetchHint: Int? { get }
}

extension Publisher {
    /// How many values are worth asking for in advance; nil where one at a time is as good.
    package var prefetch: Int? { (self as? any PrefetchingPublisher)?.prefetchHint }
}

extension AnyPublisher: PrefetchingPublisher {
    package var prefetchHint: Int? { base.prefetch }
}

/// An operator that asks upstream for about as much as it is asked for.
package protocol PrefetchingOperator: PrefetchingPublisher {
    associatedtype Upstream: Publisher
    var upstream: Upstream { get }
}

extension PrefetchingOperator {
    package var prefetchHint: Int? { upstream.prefetch }
}

extension Publishers.Filter: PrefetchingOperator {}
extension Publishers.TryFilter: PrefetchingOperator {}
extension Publishers.MapError: PrefetchingOperator {}
extension Publishers.SetFailureType: PrefetchingOperator {}
extension Publishers.AssertNoFailure: PrefetchingOperator {}
extension Publishers.ReplaceError: PrefetchingOperator {}
extension Publishers.Map: PrefetchingOperator {}
extension Publishers.TryMap: PrefetchingOperator {}
extension Publishers.CompactMap: PrefetchingOperator {}
extension Publishers.TryCompactMap: PrefetchingOperator {}
extension Publishers.RemoveDuplicates: PrefetchingOperator {}
extension Publishers.TryRemoveDuplicates: PrefetchingOperator {}
extension Publishers.Output: PrefetchingOperator {}
extension Publishers.Encode: PrefetchingOperator {}
extension Publishers.Decode: PrefetchingOperator {}
extension Publishers.MapKeyPath: PrefetchingOperator {}
extension Publishers.MapKeyPath2: PrefetchingOperator {}
extension Publishers.MapKeyPath3: PrefetchingOperator {}
extension Publishers.PrefixWhile: PrefetchingOperator {}
extension Publishers.TryPrefixWhile: PrefetchingOperator {}
extension Publishers.DropWhile: PrefetchingOperator {}
extension Publishers.TryDropWhile: PrefetchingOperator {}
extension Publishers.Drop: PrefetchingOperator {}
extension Publishers.Scan: PrefetchingOperator {}
extension Publishers.TryScan: PrefetchingOperator {}
extension Publishers.ReplaceEmpty: PrefetchingOperator {}
extension Publishers.Catch: PrefetchingOperator {}
extension Publishers.TryCatch: PrefetchingOperator {}
extension Publishers.Retry: PrefetchingOperator {}
extension Publishers.HandleEvents: PrefetchingOperator {}
extension Publishers.Breakpoint: PrefetchingOperator {}
extension Publishers.Print: PrefetchingOperator {}
extension Publishers.ReceiveOn: PrefetchingOperator {}
extension Publishers.SubscribeOn: PrefetchingOperator {}
extension Publishers.Delay: PrefetchingOperator {}
extension Publishers.Timeout: PrefetchingOperator {}
extension Publishers.MeasureInterval: PrefetchingOperator {}
