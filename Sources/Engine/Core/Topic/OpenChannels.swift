// OpenChannels: the channels of a topic, and their credit. Few of many topics have any.

struct OpenChannels: Resettable {
    var channels = ChannelTable()
    var credits = ChannelCredits()
    var awaitingAcknowledgement: [Channel] = []

    func awaiting(at index: Int) -> Channel? {
        index < awaitingAcknowledgement.count ? awaitingAcknowledgement[index] : nil
    }
}
