// Turns: a publisher that delivers on its own thread, as a broker's topic does, reports when it has delivered
// everything it had, so that a waiting task is woken only once for all of it.

/// A subscriber that passes on all values of a turn together.
package protocol TurnSubscriber: AnyObject, TurnPassing {
    /// Announces that each value will be followed by the end of a turn or of the stream.
    func expectTurns()
    /// All available values have been delivered.
    /// - Returns: additional demand.
    func turnEnded() -> Subscribers.Demand
}

/// A turn subscriber, or a subscriber in front of one. It passes each value on within the call in which it receives it,
/// and demand means the same to it as to the subscribers downstream.
package protocol TurnPassing {
    var turnSubscriber: (any TurnSubscriber)? { get }
}

extension TurnSubscriber {
    package var turnSubscriber: (any TurnSubscriber)? { self }
}

extension Subscriber {
    /// The downstream subscriber that must be notified when a turn ends.
    package var turns: (any TurnSubscriber)? { (self as? any TurnPassing)?.turnSubscriber }
}
