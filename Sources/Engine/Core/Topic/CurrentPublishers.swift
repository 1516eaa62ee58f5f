// CurrentPublishers: the open channels and parked publishes of a topic. Most topics have none, so the object is created
// on first use.

final class CurrentPublishers {
    var channels = ChannelTable()
    var credits = ChannelCredits()
    /// Channels with pending acknowledgements.
    var awaitingAcknowledgement: [Channel] = []
    var parked: ParkedQueue

    init(budget: MemoryBudget) { parked = ParkedQueue(budget: budget) }

    var isEmpty: Bool { channels.isEmpty && parked.isEmpty }
}
