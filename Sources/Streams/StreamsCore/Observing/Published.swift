// Published: a property wrapper that publishes the values of a property, and its publisher.

/// A property of a class whose values are published. Each subscriber receives the current value first, and then each
/// new value before it is stored.
///
///     final class Thermometer: ObservableObject {
///         @Published var celsius = 20.0
///     }
///     thermometer.$celsius.sink { print($0) }
@propertyWrapper
public struct Published<Value> {
    /// Publishes the property's values. A value for which there is no demand is replaced by the next.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Value
        public typealias Failure = Never

        fileprivate let storage: PublishedStorage<Value>

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Value, S.Failure == Never {
            storage.values.subscribe(SharedSubscription(name: "PublishedSubject", downstream: subscriber))
        }
    }

    fileprivate let storage: PublishedStorage<Value>

    /// Creates a property with an initial value.
    public init(initialValue: Value) { storage = PublishedStorage(initialValue) }
    /// Called for `@Published var name = value`.
    public init(wrappedValue: Value) { storage = PublishedStorage(wrappedValue) }

    /// The publisher `$property`. Its setter exists so that it can be passed to `assign(to:)`; setting it has no
    /// effect.
    public var projectedValue: Publisher {
        mutating get { Publisher(storage: storage) }
        set {}
    }

    /// Unavailable: the property must belong to an object, which the static subscript receives.
    @available(*, unavailable, message: "@Published is available only on properties of classes")
    public var wrappedValue: Value {
        get { preconditionFailure("@Published is available only on properties of classes.") }
        set { preconditionFailure("@Published is available only on properties of classes.") }
    }

    /// Reads and writes `object.name`.
    public static subscript<Object: AnyObject>(
        _enclosingInstance object: Object, wrapped _: ReferenceWritableKeyPath<Object, Value>,
        storage path: ReferenceWritableKeyPath<Object, Published<Value>>
    ) -> Value {
        get { object[keyPath: path].storage.value }
        set { object[keyPath: path].storage.set(newValue) }
    }
}

extension Publisher where Output: Sendable, Failure == Never {
    /// Stores each value in a published property, as in `assign(to: &object.$property)`, until the property is
    /// released.
    ///
    /// The property changes on the thread that delivers. If an actor calls this and values are not delivered on it, the
    /// first value traps. For an object of the main actor, put `receive(on: DispatchQueue.main)` before it.
    public func assign(
        to published: inout Published<Output>.Publisher, isolation actor: isolated (any Actor)? = #isolation
    ) {
        published.storage.follow(self, on: actor)
    }
}

/// The storage of a published property. It is an object, so that a copy of the property made by reflection shares it.
final class PublishedStorage<Value>: @unchecked Sendable {
    private let lock = Lock()
    private var stored: Value
    private var subject: CurrentValueSubject<Value, Never>?
    private var objectWillChange: ObservableObjectPublisher?
    /// The subscriptions to the publishers assigned to this property.
    private var followed: [CombineIdentifier: any Cancellable] = [:]

    init(_ value: Value) { stored = value }

    deinit { for subscription in followed.values { subscription.cancel() } }

    var value: Value { lock.with { stored } }

    /// Notifies the object's subscribers, then the property's own, then stores the value.
    func set(_ value: Value) {
        let (objectWillChange, subject) = lock.with { (self.objectWillChange, self.subject) }
        objectWillChange?.send()
        subject?.send(value)
        let before = lock.with {
            defer { stored = value }
            return stored
        }
        _ = before
    }

    /// Created on first use.
    var values: CurrentValueSubject<Value, Never> {
        lock.with {
            let subject = self.subject ?? CurrentValueSubject(stored)
            self.subject = subject
            return subject
        }
    }

    /// - Parameter actor: the actor to which the property belongs, if any.
    func follow<P: Publisher>(_ publisher: P, on actor: (any Actor)?) where P.Output == Value, P.Failure == Never {
        let identifier = CombineIdentifier()
        let sink = Subscribers.Sink<Value, Never>(
            receiveCompletion: { [weak self] _ in self?.discard(identifier) },
            receiveValue: { [weak self] in
                actor?.preconditionIsolated("A property of an actor was assigned outside the actor.")
                self?.set($0)
            })
        lock.with { followed[identifier] = sink }
        publisher.subscribe(sink)
    }

    private func discard(_ identifier: CombineIdentifier) {
        let ended = lock.with { followed.removeValue(forKey: identifier) }
        _ = ended
    }
}

// For objects

/// A published property, whatever the type of its values.
protocol PublishedProperty {
    var changes: any ChangeAnnouncing { get }
}

/// Announces its changes as changes of an object.
protocol ChangeAnnouncing {
    var announcedBy: ObservableObjectPublisher? { get }
    func announce(by publisher: ObservableObjectPublisher)
}

extension Published: PublishedProperty {
    var changes: any ChangeAnnouncing { storage }
}

extension PublishedStorage: ChangeAnnouncing {
    var announcedBy: ObservableObjectPublisher? { lock.with { objectWillChange } }
    func announce(by publisher: ObservableObjectPublisher) { lock.with { objectWillChange = publisher } }
}
