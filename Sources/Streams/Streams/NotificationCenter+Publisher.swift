// Notifications as a publisher.

import Foundation
import StreamsCore

extension NotificationCenter {
    /// A publisher of the notifications of that name, of `object` alone if it is given. They are delivered where they
    /// are posted; what a subscriber has not asked for it does not get. The stream never ends by itself.
    public func publisher(for name: Notification.Name, object: AnyObject? = nil) -> Publisher {
        Publisher(center: self, name: name, object: object)
    }

    /// See `NotificationCenter.publisher(for:object:)`.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Notification
        public typealias Failure = Never

        /// Where the notifications are posted.
        public let center: NotificationCenter
        /// The name of those that are published.
        public let name: Notification.Name
        /// Whose notifications are published; nil for everybody's.
        public let object: AnyObject?

        /// Publishes the notifications of this name, of one object's or, where that is nil, of all.
        public init(center: NotificationCenter, name: Notification.Name, object: AnyObject? = nil) {
            self.center = center
            self.name = name
            self.object = object
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Notification, S.Failure == Never {
            // What observes is called where a notification is posted, one call within the other at most.
            let subject = Unchecked(PassthroughSubject<Notification, Never>())
            let observer = center.addObserver(forName: name, object: object, queue: nil) { notification in
                subject.value.send(notification)
            }
            // The observer goes with the subscription.
            let observation = Unchecked((center: center, observer: observer))
            let ending = AnyCancellable { observation.value.center.removeObserver(observation.value.observer) }
            subject.value.handleEvents(receiveCancel: { ending.cancel() }).subscribe(subscriber)
        }
    }
}

extension NotificationCenter.Publisher: Equatable {
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.center === rhs.center && lhs.name == rhs.name && lhs.object === rhs.object
    }
}
