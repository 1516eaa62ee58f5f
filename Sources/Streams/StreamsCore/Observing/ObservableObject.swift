// ObservableObject: a class that announces its changes.

/// A class that notifies its subscribers before it changes. By default, it does so before each change of a `@Published`
/// property.
public protocol ObservableObject: AnyObject {
    /// The type of the publisher that announces changes.
    associatedtype ObjectWillChangePublisher: Publisher = ObservableObjectPublisher
    where ObjectWillChangePublisher.Failure == Never

    /// Publishes before the object changes.
    var objectWillChange: ObjectWillChangePublisher { get }
}

extension ObservableObject where ObjectWillChangePublisher == ObservableObjectPublisher {
    /// Always the same publisher if the class or a superclass has a `@Published` property. Otherwise a new publisher
    /// for each call, to which nothing is sent.
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

/// Ensures that two threads asking concurrently get the same publisher.
private let attaching = Lock()

/// The default `objectWillChange` of an `ObservableObject`.
public final class ObservableObjectPublisher: Publisher, Sendable {
    public typealias Output = Void
    public typealias Failure = Never

    private let subject = PassthroughSubject<Void, Never>()

    /// Starts without subscribers.
    public init() {}

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Void, S.Failure == Never {
        subject.subscribe(SharedSubscription(name: "ObservableObjectPublisher", downstream: subscriber))
    }

    /// Notifies the subscribers that the object is about to change.
    public func send() { subject.send() }
}
