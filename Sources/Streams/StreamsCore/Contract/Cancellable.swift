// Cancellable: something that is going on and can be ended.

/// Something that goes on until it is cancelled, such as a subscription.
public protocol Cancellable: SendableMetatype {
    /// Ends it, and lets go of what it holds. Calling it again has no effect.
    func cancel()
}

extension Cancellable {
    /// Keeps this in `collection`, which ends it when it lets go of it.
    public func store<C: RangeReplaceableCollection>(in collection: inout C) where C.Element == AnyCancellable {
        AnyCancellable(self).store(in: &collection)
    }

    /// Keeps this in `set`, which ends it when it lets go of it.
    public func store(in set: inout Set<AnyCancellable>) {
        AnyCancellable(self).store(in: &set)
    }
}

/// Cancels when it is let go of. Safe to use from any thread.
public final class AnyCancellable: Cancellable, Hashable, @unchecked Sendable {
    private let lock = Lock()
    private var action: (() -> Void)?

    /// - Parameter cancel: called once at most, on the thread that cancels this or lets go of it last.
    public init(_ cancel: @escaping @Sendable () -> Void) { action = cancel }

    /// Ends something else when it is cancelled or let go of, once.
    public init<C: Cancellable>(_ canceller: C) { action = canceller.cancel }

    deinit { action?() }

    public func cancel() {
        // Taken out first: it may come back here, and what it holds is released outside of the lock.
        let action = lock.with { () -> (() -> Void)? in
            defer { self.action = nil }
            return self.action
        }
        action?()
    }

    public static func == (lhs: AnyCancellable, rhs: AnyCancellable) -> Bool { lhs === rhs }
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// Keeps this in a collection, which then decides how long it lives.
    public func store<C: RangeReplaceableCollection>(in collection: inout C) where C.Element == AnyCancellable {
        collection.append(self)
    }

    public func store(in set: inout Set<AnyCancellable>) { set.insert(self) }
}
