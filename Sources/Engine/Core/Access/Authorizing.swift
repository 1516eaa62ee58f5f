// Authorizing: whether a peer may do what it asks for. Asked where a stream is opened, or a single message published.

import ForebayWire

final class Authorization: ShardPart {
    init(_ context: ShardContext, access: AccessTable) {
        self.access = access
        super.init(context)
    }

    /// Who may do what; a reload sets another one.
    var access: AccessTable

    /// - Parameter peer: address and port of who asks, for the log.
    /// - Throws: what to answer one who may not. A fire publish gets no answer, so the log tells of it as well.
    func expect(
        _ permission: Permission, _ topic: String, of principal: Principal, at peer: String
    ) throws(Refusal) {
        guard !principal.permissions.allow(permission, topic) else { return }
        counters.denied += 1
        let who: [LogField] = principal.user.map { [("user", $0)] } ?? [("anonymous", "yes")]
        effects.log.append(
            LogRecord(
                level: .warning, message: "permission denied",
                fields: who + [("permission", "\(permission)"), ("topic", topic), ("peer", peer)], isFrequent: true))
        throw Authorization.denial(permission, topic, of: principal)
    }

    static func denial(_ permission: Permission, _ topic: String, of principal: Principal) -> Refusal {
        let deed =
            switch permission {
            case .publish: "publish to '\(topic)'"
            case .subscribe: "subscribe to '\(topic)'"
            case .control: "control '\(topic)'"
            case .block: "subscribe to '\(topic)' with overflow=block"
            }
        return Refusal(.forbidden, "\(principal.title) may not \(deed); ask the broker's administrator for it.")
    }

    /// A single publish. A peer mostly publishes to the topics that it published to before.
    func expectPublish(to target: PublishTarget, _ connection: Connection) throws(Refusal) {
        guard !connection.login.allowedTargets.contains(target) else { return }
        try expect(.publish, target.name, of: connection.principal ?? .nobody, at: connection.peer)
        connection.login.allowedTargets.insert(target)
    }

    /// A subscription. The broker's own topics, which tell of everybody, take the permission to control them.
    func expectSubscribe(
        to topic: String, _ options: SubscribeOptions, of principal: Principal, at peer: String
    ) throws(Refusal) {
        try expect(TopicName.isSystem(topic) ? .control : .subscribe, topic, of: principal, at: peer)
        if options.overflow == .block { try expect(.block, topic, of: principal, at: peer) }
    }

    /// A control call.
    func expectCall(_ call: ControlRequest, of principal: Principal, at peer: String) throws(Refusal) {
        if case .topic(let name, .info) = call.subject {
            if call.isForPublishing {
                try checkPublish(to: name)
                return try expect(.publish, name, of: principal, at: peer)
            }
            if principal.permissions.show(name) { return }
            counters.denied += 1
            // Named alone, the one to control would be asked for, which allows much more.
            throw Refusal(
                .forbidden,
                "\(principal.title) may not publish to, subscribe to or control '\(name)', one of which it takes; "
                    + "ask the broker's administrator for it.")
        }
        try expect(.control, call.permitted, of: principal, at: peer)
    }

    // Lists show what one may see, and leave out the rest.

    /// Lists in which one may see what is not one's own.
    func listsOpen(to principal: Principal) -> [BrokerList] {
        let permissions = principal.permissions
        return BrokerList.allCases.filter { list in
            switch list {
            case .topics:
                permissions.publish.isOfClients || permissions.subscribe.isOfClients || permissions.control.isOfClients
            case .subscriptions: permissions.control.isOfClients
            case .connections: permissions.control.contains(list.rawValue)
            }
        }
    }

    /// Its own, and those of topics that it controls.
    func mayList(_ subscriber: Subscriber, _ principal: Principal) -> Bool {
        isOwn(subscriber.principal, principal)
            || principal.permissions.control.contains(subscriber.view.name)
    }

    /// Its own; all of them, with the permission to control the list.
    func mayList(_ connection: Connection, _ principal: Principal) -> Bool {
        if principal.permissions.control.contains(BrokerList.connections.rawValue) { return true }
        let owner = connection.owner
        return owner.map { isOwn($0, principal) } ?? false
    }

    /// What is one's own can be told by a user's name alone: the anonymous are many.
    private func isOwn(_ owner: Principal, _ principal: Principal) -> Bool {
        owner.user != nil && owner.user == principal.user
    }

    /// Refuses names that no client may publish to.
    func checkPublish(to name: String) throws(Refusal) {
        if TopicName.isSystem(name) {
            throw Refusal(.forbidden, "'\(name)' is the broker's own; clients cannot publish there.")
        }
        if let fault = TopicName.fault(name) { throw .invalid(fault) }
    }

    /// Who a connection is if nothing more is said; nil if that is not enough.
    func unasked(_ certificate: PeerCertificate?) -> Principal? { access.unasked(certificate) }
}
