// PatternSubscribing+Skipping: what happens at `max-matches`. A subscription is refused if more topics match when it
// begins. Later, topics that get messages while it has as many cursors as it may have are skipped. When it has fewer,
// it continues in up to 64 of them with the first message that it missed; `dropped` counts those that are no longer
// retained.
//
//     a message, no room for a cursor ─▶ skipped ──a cursor is removed──▶ joined from where it was skipped
//                                           └──its topic is deleted──▶ no longer remembered

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

    /// A topic has messages, and the subscription has as many cursors as it may have.
    /// - Parameters:
    ///   - followed: from where all messages are for subscriptions without a cursor.
    ///   - begins: whether the topic is one of those in which the subscription begins.
    func skip(_ view: TopicView, of subscription: PatternSubscription, from followed: SequenceNumber?, begins: Bool) {
        let isKnown = subscription.skipped[view.epoch] != nil
        if begins, !isKnown { return refuse(subscription) }
        subscription.noteSkip()
        // Each message of such a topic comes here. The limit is reached when the first one is skipped.
        if subscription.skipped.isEmpty {
            _ = context.refusal(
                at: .matches,
                "The subscription to '\(subscription.pattern)' skips '\(view.name)', and perhaps others, for now: it "
                    + "has positions in \(counted(limits.matches, "topic")) with recent or waiting messages, the "
                    + "maximum of one subscription (max-matches); raise it, or use a narrower pattern.",
                of: PatternSubscribing.who(subscription.principal, subscription.connection))
        }
        guard !isKnown, !subscription.skipped.isFull else { return }
        let followed = followed ?? subscribing.window(of: view).upper
        charge(subscription) {
            subscription.skipped.add(view.epoch, SkippedTopics.Place(owner: view.owner, followed: followed))
        }
    }

    /// A skipped topic is joined, or there is nothing to join any longer.
    /// - Returns: what was remembered of it; nil if it was not skipped.
    @discardableResult
    func takeSkipped(_ epoch: UInt64, of subscription: PatternSubscription) -> SkippedTopics.Place? {
        subscription.skipped.isEmpty ? nil : charge(subscription) { subscription.skipped.remove(epoch) }
    }

    /// A subscription may have another cursor.
    func joinSkippedLater(_ subscription: PatternSubscription) {
        guard !subscription.isOver, !subscription.skipped.isEmpty, !subscription.skipped.isJoining else { return }
        subscription.skipped.isJoining = true
        work.doLater(.joinSkipped(subscription))
    }

    /// Gives a subscription cursors in skipped topics, or asks their owners for views of these.
    func joinSkipped(_ subscription: PatternSubscription, now: Instant) {
        subscription.skipped.isJoining = false
        var room = limits.matches - subscription.cursors.count - subscription.beginning.rejoining.count
        while room > 0, !subscription.isOver, let (epoch, place) = subscription.nextSkipped {
            room -= 1
            if let view = views[epoch: epoch] {
                join(subscription, to: view, from: view.followed, isNew: false, now: now)
            } else {
                work.spent += Work.messages
                rejoin(epoch, subscription, of: place.owner, now: now)
            }
        }
    }
}
