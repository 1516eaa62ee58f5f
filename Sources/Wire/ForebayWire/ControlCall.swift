// ControlCall: what operators ask of a broker, the same for every protocol and every client.

/// A request with one answer, about the broker, a topic, a connection or a subscription.
public enum ControlCall: Equatable, Sendable {
    /// The broker.
    case info
    case topicInfo(String)
    case completeTopic(String)
    /// `message` is what subscriptions are sent; nil leaves it to the broker.
    case failTopic(String, message: String?)
    case deleteTopic(String)
    /// By its id in the list of connections.
    case closeConnection(String)
    /// By its id in the list of subscriptions.
    case closeSubscription(UInt64)

    /// The names of the calls as routes.
    public enum Name: String, CaseIterable, Sendable {
        case info = "$SYS.info"
        case topicInfo = "$SYS.topic.info"
        case completeTopic = "$SYS.topic.complete"
        case failTopic = "$SYS.topic.fail"
        case deleteTopic = "$SYS.topic.delete"
        case closeConnection = "$SYS.connection.close"
        case closeSubscription = "$SYS.subscription.close"
    }

    /// Its name as a route.
    public var name: Name {
        switch self {
        case .info: .info
        case .topicInfo: .topicInfo
        case .completeTopic: .completeTopic
        case .failTopic: .failTopic
        case .deleteTopic: .deleteTopic
        case .closeConnection: .closeConnection
        case .closeSubscription: .closeSubscription
        }
    }
}

/// What the broker lists. The raw values are the names of the lists as topics.
public enum BrokerList: String, CaseIterable, Sendable {
    case topics = "$SYS.topics"
    case subscriptions = "$SYS.subscriptions"
    case connections = "$SYS.connections"
}
