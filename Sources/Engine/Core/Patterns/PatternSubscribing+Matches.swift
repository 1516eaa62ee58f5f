// PatternSubscribing+Matches: what happens at `max-matches`. A subscription that more topics match when it begins is
// refused. If further topics get messages later, they are left out until it may have another cursor. It then receives
// what it lacks of them, as after resuming, with what is lost by then in `dropped`.

import Bytes
import ForebayWire
import Replay

extension PatternSubscribing {
    /// More topics match than a subscription may have.
    func refuse(_ subscription: PatternSubscription) {
        let refusal = context.refusal(
            at: .matches,
            "More than \(counted(limits.matches, "topic")) match '\(subscription.pattern)', the maximum of one "
                + "subscription (max-matches); use a narrower pattern, or raise the limit.",
            of: PatternSubscribing.who(subscription.principal, subscription.connection))
        ends.fail(subscription, refusal)
    }

    /// A topic has messages, and the subscription has as many cursors as it may have. Until the subscription has begun,
    /// it may still be refused for that.
    func leaveOut(_ view: TopicView, of subscription: PatternSubscription, from followed: SequenceNumber?, isNew: Bool)
    {
        subscription.noteSkip()
        if subscription.hasBegun {
            _ = context.refusal(
                at: .matches,
                "The subscription to '\(subscription.pattern)' skips '\(view.name)' and others for now: it has "
                    + "messages waiting, or had some in the last seconds, in "
                    + "\(counted(limits.matches, "topic")), the maximum of one subscription (max-matches).",
                of: PatternSubscribing.who(subscription.principal, subscription.connection))
        }
        let others = subscription.beginning.leftOut
        guard others.count < PatternSubscribing.mostKept, others[view.epoch] == nil else { return }
        let begins = isNew || subscription.begins(in: view.epoch)
        let leftOut = LeftOut(
            owner: view.owner, followed: followed ?? subscribing.window(of: view).upper, begins: begins,
            position: takePosition(of: subscription, in: view, begins: begins))
        charge(subscription) { subscription.beginning.leftOut[view.epoch] = leftOut }
    }

    /// The subscription no longer lacks messages of a topic.
    @discardableResult
    func takeLeftOut(_ epoch: UInt64, of subscription: PatternSubscription) -> LeftOut? {
        guard !subscription.beginning.leftOut.isEmpty else { return nil }
        return charge(subscription) { subscription.beginning.leftOut.removeValue(forKey: epoch) }
    }

    /// A subscription has a cursor less, and may have another one.
    func joinLeftOutLater(_ subscription: PatternSubscription) {
        guard !subscription.isOver, !subscription.beginning.leftOut.isEmpty, !subscription.beginning.isJoining else {
            return
        }
        subscription.beginning.isJoining = true
        work.doLater(.joinLeftOut(subscription))
    }

    /// Gives a subscription cursors in topics that were left out, or asks their owners for views of these.
    func joinLeftOut(_ subscription: PatternSubscription, now: Instant) {
        subscription.beginning.isJoining = false
        var room = limits.matches - subscription.cursors.count - subscription.beginning.rejoining.count
        while room > 0, !subscription.isOver, let (epoch, leftOut) = subscription.nextLeftOut {
            room -= 1
            if let view = views[epoch: epoch] {
                join(subscription, to: view, from: view.followed, isNew: false, now: now)
            } else {
                rejoin(epoch, subscription, of: leftOut.owner, now: now)
            }
        }
    }
}
