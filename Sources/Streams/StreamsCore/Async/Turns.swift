// Turns: a publisher that delivers on a thread of its own, as a topic of a broker's does, tells when it has delivered
// what it had, so that whoever waits is woken once for all of it.

/// A subscriber that hands on together what came in one turn.
package protocol TurnSubscriber: AnyObject, TurnPassing {
    /// Each value will be followed by the end of a turn, or by the end of the stream.
    func expectTurns()
    /// What there was has been delivered.
    /// - Returns: how many more values are wanted.
    func turnEnded() -> Subscribers.Demand
}

/// A subscriber that is one, or stands in front of one: it delivers a value within the call that it receives it by, and
/// demand means the same to it and to those behind it.
package protocol TurnPassing {
    var turnSubscriber: (any TurnSubscriber)? { get }
}

extension TurnSubscriber {
    package var turnSubscriber: (any TurnSubscriber)? { self }
}

extension Subscriber {
    /// Who behind this wants to know when a turn ends.
    package var turns: (any TurnSubscriber)? { (self as? any TurnPassing)?.turnSubscriber }
}
