// PatternSubscribing+Matches: what happens at `max-matches`. A subscription is refused if more topics match when it
// begins. Later, topics that get messages while it has as many cursors as it may have are left out. When it has fewer,
// it continues in up to 64 of them with the first message that it missed; `dropped` counts those that are no longer
// retained.

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
        // Each message of such a topic comes here.
        if !subscription.beginning.leftOut.isEmpty {
            reached(.matches)
        } else if subscription.hasBegun {
            _ = context.refusal(
                at: .matches,
                "The subscription to '\(subscription.pattern)' skips '\(view.name)', and perhaps others, for now: it "
                    + "has positions in \(counted(limits.matches, "topic")) with recent or waiting messages, the "
                    + "maximum of one subscription (max-matches); raise it, or use a narrower pattern.",
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

    /// Forgets that a topic was left out, and returns what was known of it.
    @discardableResult
    func takeLeftOut(_ epoch: UInt64, of subscription: PatternSubscription) -> LeftOut? {
        guard !subscription.beginning.leftOut.isEmpty else { return nil }
        return charge(subscription) { subscription.beginning.leftOut.removeValue(forKey: epoch) }
    }

    /// A subscription may have another cursor.
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
                work.spent += Work.messages
                rejoin(epoch, subscription, of: leftOut.owner, now: now)
            }
        }
    }
}
