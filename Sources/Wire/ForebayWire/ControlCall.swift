// ControlCall: the control requests of operators, the same in every protocol and client.

/// A request with one response, about the broker, a topic, a publisher, a connection or a subscription.
public enum ControlCall: Equatable, Sendable {
    /// Information about the broker.
    case info
    case topicInfo(String)
    case completeTopic(String)
    /// `message` is the error that subscriptions receive; nil for the broker's default.
    case failTopic(String, message: String?)
    case deleteTopic(String)
    /// The id is the one in the list of connections.
    case closeConnection(String)
    /// The id is the one in the list of subscriptions.
    case closeSubscription(UInt64)
    /// The last number of the caller's publisher with this id.
    case publisherInfo(topic: String, publisher: String)

    /// The names of the calls, used as routes.
    public enum Name: String, CaseIterable, Sendable {
        case info = "$SYS.info"
        case topicInfo = "$SYS.topic.info"
        case completeTopic = "$SYS.topic.complete"
        case failTopic = "$SYS.topic.fail"
        case deleteTopic = "$SYS.topic.delete"
        case closeConnection = "$SYS.connection.close"
        case closeSubscription = "$SYS.subscription.close"
        case publisherInfo = "$SYS.publisher.info"
    }

    /// The call's name, used as a route.
    public var name: Name {
        switch self {
        case .info: .info
        case .topicInfo: .topicInfo
        case .completeTopic: .completeTopic
        case .failTopic: .failTopic
        case .deleteTopic: .deleteTopic
        case .closeConnection: .closeConnection
        case .closeSubscription: .closeSubscription
        case .publisherInfo: .publisherInfo
        }
    }
}

/// The lists that the broker offers. The raw values are their names as topics.
public enum BrokerList: String, CaseIterable, Sendable {
    case topics = "$SYS.topics"
    case subscriptions = "$SYS.subscriptions"
    case connections = "$SYS.connections"
}
