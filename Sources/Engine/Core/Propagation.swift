// Propagation: after each input, runs everything it touched to completion. Topics advance their views, views report
// their progress to their owners, and connections that have room again are fed. Each of these may touch others.

import Replay

final class Propagation: ShardPart {
    let connections: ConnectionTable
    let topics: TopicTable
    let rateLimiter: RateLimiter
    let reports: Reports
    let forwarding: Forwarding
    let views: ViewTable
    let attachment: ViewAttachment
    let publishing: Publishing
    let feeding: OutputFeeding

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ topics: TopicTable, _ rateLimiter: RateLimiter,
        _ reports: Reports, _ forwarding: Forwarding, _ views: ViewTable, _ attachment: ViewAttachment,
        _ publishing: Publishing,
        _ feeding: OutputFeeding
    ) {
        self.connections = connections
        self.topics = topics
        self.rateLimiter = rateLimiter
        self.reports = reports
        self.forwarding = forwarding
        self.views = views
        self.attachment = attachment
        self.publishing = publishing
        self.feeding = feeding
        super.init(context)
    }

    /// Far more rounds than any input needs.
    private static let mostRounds = 1 << 20

    /// Whether the input touched nothing.
    @inline(__always)
    var isDone: Bool {
        !topics.hasDirty && !views.hasDirty && !connections.hasRoomy && !reports.isDue && !rateLimiter.hasTaken
            && forwarding.outgoingCount == 0
    }

    /// Repeats until everything that the input touched is done.
    @inline(__always)
    func run(_ now: Instant) {
        if !isDone { goOn(now) }
    }

    private func goOn(_ now: Instant) {
        rateLimiter.putTokensBack()
        publishing.sendOutgoing()
        var rounds = 0
        while topics.hasDirty || views.hasDirty || connections.hasRoomy {
            rounds += 1
            assert(rounds < Propagation.mostRounds, "topics and views keep changing each other")
            pool.look()
            while let connection = connections.nextRoomy() { feeding.feedRoomy(connection, now: now) }
            while let topic = topics.nextDirty() { topic.maintain(now: now) }
            while let view = views.nextDirty() { attachment.report(view, now: now) }
        }
        if reports.isDue { reports.sendDue() }
    }
}
