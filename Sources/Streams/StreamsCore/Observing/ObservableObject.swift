// ObservableObject: a class that tells when it is about to change.

/// A class whose subscribers are told before it changes: without more being written, before each change of a property
/// that is `@Published`.
public protocol ObservableObject: AnyObject {
    /// Announces that the object is about to change.
    associatedtype ObjectWillChangePublisher: Publisher = ObservableObjectPublisher
    where ObjectWillChangePublisher.Failure == Never

    /// Tells that the object is about to change.
    var objectWillChange: ObjectWillChangePublisher { get }
}

extension ObservableObject where ObjectWillChangePublisher == ObservableObjectPublisher {
    /// The same one for each call if a property is `@Published`, be it a superclass's; else a new one, to which nothing
    /// is sent.
    public var objectWillChange: ObservableObjectPublisher {
        var properties: [any ChangeAnnouncing] = []
        var mirror: Mirror? = Mirror(reflecting: self)
        while let current = mirror {
            properties += current.children.compactMap { ($0.value as? any PublishedProperty)?.changes }
            mirror = current.superclassMirror
        }
        return attaching.with {
            let publisher = properties.lazy.compactMap(\.announcedBy).first ?? ObservableObjectPublisher()
            for property in properties { property.announce(by: publisher) }
            return publisher
        }
    }
}

/// So that of two threads that ask at once both get the same.
private let attaching = Lock()

/// What an `ObservableObject` has unless it has something else.
public final class ObservableObjectPublisher: Publisher, Sendable {
    public typealias Output = Void
    public typealias Failure = Never

    private let subject = PassthroughSubject<Void, Never>()

    /// A publisher without subscribers.
    public init() {}

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Void, S.Failure == Never {
        subject.subscribe(SharedSubscription(name: "ObservableObjectPublisher", downstream: subscriber))
    }

    /// Tells the subscribers that the object is about to change.
    public func send() { subject.send() }
}
