// Prefetching: publishers that recommend requesting several values at a time, as a broker's topics do, and operators
// that pass this recommendation on.

/// A publisher that may recommend how many values to request in advance. Requested one by one, each value would cost a
/// round trip to the source.
package protocol PrefetchingPublisher {
    /// At least 1; nil if prefetching has no advantage.
    var prefetchHint: Int? { get }
}

extension Publisher {
    /// How many values to request in advance; nil if prefetching has no advantage.
    package var prefetch: Int? { (self as? any PrefetchingPublisher)?.prefetchHint }
}

extension AnyPublisher: PrefetchingPublisher {
    package var prefetchHint: Int? { base.prefetch }
}

/// An operator that requests about as many values from upstream as are requested from it.
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
