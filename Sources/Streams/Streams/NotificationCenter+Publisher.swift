// NotificationCenter.Publisher: publishes notifications.

import Foundation
import StreamsCore

extension NotificationCenter {
    /// A publisher of the notifications with this name; only those of `object` if it is given. Notifications are
    /// delivered on the posting thread. A subscriber misses those for which it has no demand. The stream never ends on
    /// its own.
    public func publisher(for name: Notification.Name, object: AnyObject? = nil) -> Publisher {
        Publisher(center: self, name: name, object: object)
    }

    /// See `NotificationCenter.publisher(for:object:)`.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Notification
        public typealias Failure = Never

        /// The notification center.
        public let center: NotificationCenter
        /// The name of the published notifications.
        public let name: Notification.Name
        /// The object whose notifications are published; nil for all objects.
        public let object: AnyObject?

        /// Publishes the notifications with this name; only those of `object` if it is not nil.
        public init(center: NotificationCenter, name: Notification.Name, object: AnyObject? = nil) {
            self.center = center
            self.name = name
            self.object = object
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Notification, S.Failure == Never {
            // The observer is called on the posting thread; calls may only be nested.
            let subject = Unchecked(PassthroughSubject<Notification, Never>())
            let observer = center.addObserver(forName: name, object: object, queue: nil) { notification in
                subject.value.send(notification)
            }
            // The observer is removed with the subscription.
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
