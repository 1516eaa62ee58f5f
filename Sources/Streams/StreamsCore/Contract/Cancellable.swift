// Cancellable: an ongoing activity that can be ended.

/// An activity that continues until it is cancelled, such as a subscription.
public protocol Cancellable: SendableMetatype {
    /// Ends the activity and releases its resources. Further calls have no effect.
    func cancel()
}

extension Cancellable {
    /// Stores this in `collection`. It is cancelled when the collection releases it.
    public func store<C: RangeReplaceableCollection>(in collection: inout C) where C.Element == AnyCancellable {
        AnyCancellable(self).store(in: &collection)
    }

    /// Stores this in `set`. It is cancelled when the set releases it.
    public func store(in set: inout Set<AnyCancellable>) {
        AnyCancellable(self).store(in: &set)
    }
}

/// Cancels an activity when this object is released. It can be used from any thread.
public final class AnyCancellable: Cancellable, Hashable, @unchecked Sendable {
    private let lock = Lock()
    private var action: (() -> Void)?

    /// - Parameter cancel: called at most once, on the thread that cancels this object or releases it last.
    public init(_ cancel: @escaping @Sendable () -> Void) { action = cancel }

    /// Cancels `canceller` once, when this object is cancelled or released.
    public init<C: Cancellable>(_ canceller: C) { action = canceller.cancel }

    deinit { action?() }

    public func cancel() {
        // Taken out first: the action may call `cancel()` again, and it is released outside of the lock.
        let action = lock.with { () -> (() -> Void)? in
            defer { self.action = nil }
            return self.action
        }
        action?()
    }

    public static func == (lhs: AnyCancellable, rhs: AnyCancellable) -> Bool { lhs === rhs }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Stores this in a collection, which then determines its lifetime.
    public func store<C: RangeReplaceableCollection>(in collection: inout C) where C.Element == AnyCancellable {
        collection.append(self)
    }

    public func store(in set: inout Set<AnyCancellable>) { set.insert(self) }
}
