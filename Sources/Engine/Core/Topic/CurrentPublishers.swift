// CurrentPublishers: the open channels and parked publishes of a topic. Most of many topics have none.

final class CurrentPublishers {
    var channels = ChannelTable()
    var credits = ChannelCredits()
    /// Channels with pending acknowledgements.
    var awaitingAcknowledgement: [Channel] = []
    var parked: ParkedQueue

    init(budget: MemoryBudget) { parked = ParkedQueue(budget: budget) }

    var isEmpty: Bool { channels.isEmpty && parked.isEmpty }
}
