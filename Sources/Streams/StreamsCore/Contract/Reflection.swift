// Reflection of type-erased types and ready-made subscribers: mirrors and playgrounds show their name, not their
// contents.

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
