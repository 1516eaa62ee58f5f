// How what is erased, and the subscribers that are ready to use, show themselves to mirrors and playgrounds: by name,
// without what they hold.

extension AnyPublisher: CustomPlaygroundDisplayConvertible {
    public var playgroundDescription: Any { description }
}

extension AnySubscriber: CustomReflectable, CustomPlaygroundDisplayConvertible {
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
    public var playgroundDescription: Any { description }
}

extension Subscribers.Sink: CustomReflectable, CustomPlaygroundDisplayConvertible {
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
    public var playgroundDescription: Any { description }
}

extension Subscribers.Assign: CustomReflectable, CustomPlaygroundDisplayConvertible {
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
    public var playgroundDescription: Any { description }
}
