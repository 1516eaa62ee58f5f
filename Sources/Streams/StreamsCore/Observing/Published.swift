// Published: a property of a class whose values are published, and the publisher of them.

/// A property of a class whose values are published: to each subscriber first the current one, and each new one before
/// it is stored.
///
///     final class Thermometer: ObservableObject {
///         @Published var celsius = 20.0
///     }
///     thermometer.$celsius.sink { print($0) }
@propertyWrapper
public struct Published<Value> {
    /// Publishes the property's values. One that was not asked for is dropped for a later one.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Value
        public typealias Failure = Never

        fileprivate let storage: PublishedStorage<Value>

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Value, S.Failure == Never {
            storage.values.subscribe(SharedSubscription(name: "PublishedSubject", downstream: subscriber))
        }
    }

    fileprivate let storage: PublishedStorage<Value>

    /// A property that begins with a value.
    public init(initialValue: Value) { storage = PublishedStorage(initialValue) }
    /// What `@Published var name = value` calls.
    public init(wrappedValue: Value) { storage = PublishedStorage(wrappedValue) }

    /// What `$property` is. It can be set so that it can be handed to `assign(to:)`; that by itself changes nothing.
    public var projectedValue: Publisher {
        mutating get { Publisher(storage: storage) }
        set {}
    }

    /// Not there: what the property is of is an object, which the static subscript is given.
    @available(*, unavailable, message: "@Published is for properties of classes")
    public var wrappedValue: Value {
        get { preconditionFailure("not to be called") }
        set { preconditionFailure("not to be called") }
    }

    /// What `object.name` reads and sets.
    public static subscript<Object: AnyObject>(
        _enclosingInstance object: Object, wrapped _: ReferenceWritableKeyPath<Object, Value>,
        storage path: ReferenceWritableKeyPath<Object, Published<Value>>
    ) -> Value {
        get { object[keyPath: path].storage.value }
        set { object[keyPath: path].storage.set(newValue) }
    }
}

extension Publisher where Output: Sendable, Failure == Never {
    /// Stores each value in a published property, as `assign(to: &object.$property)`, until the property is no more.
    ///
    /// The property changes on the thread that delivers. Where that is not the actor's that calls this, as of an object
    /// of the main actor's, the first value traps: `receive(on: DispatchQueue.main)` stands before this then.
    public func assign(
        to published: inout Published<Output>.Publisher, isolation actor: isolated (any Actor)? = #isolation
    ) {
        published.storage.follow(self, on: actor)
    }
}

/// What a published property holds. An object, so that what reflection copies of the property is this still.
final class PublishedStorage<Value>: @unchecked Sendable {
    private let lock = Lock()
    private var stored: Value
    private var subject: CurrentValueSubject<Value, Never>?
    private var objectWillChange: ObservableObjectPublisher?
    /// What it takes values from.
    private var followed: [CombineIdentifier: any Cancellable] = [:]

    init(_ value: Value) { stored = value }

    deinit { for subscription in followed.values { subscription.cancel() } }

    var value: Value { lock.with { stored } }

    /// Tells the object's subscribers, then its own, then stores the value.
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

    /// Made when it is first asked for.
    var values: CurrentValueSubject<Value, Never> {
        lock.with {
            let subject = self.subject ?? CurrentValueSubject(stored)
            self.subject = subject
            return subject
        }
    }

    /// - Parameter actor: whose the property is, if any actor's.
    func follow<P: Publisher>(_ publisher: P, on actor: (any Actor)?) where P.Output == Value, P.Failure == Never {
        let identifier = CombineIdentifier()
        let sink = Subscribers.Sink<Value, Never>(
            receiveCompletion: { [weak self] _ in self?.forget(identifier) },
            receiveValue: { [weak self] in
                actor?.preconditionIsolated("A property of an actor's is assigned to on another thread.")
                self?.set($0)
            })
        lock.with { followed[identifier] = sink }
        publisher.subscribe(sink)
    }

    private func forget(_ identifier: CombineIdentifier) {
        let ended = lock.with { followed.removeValue(forKey: identifier) }
        _ = ended
    }
}

// For objects

/// A published property, whatever its values are.
protocol PublishedProperty {
    var changes: any ChangeAnnouncing { get }
}

/// Announces its changes as those of an object.
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
