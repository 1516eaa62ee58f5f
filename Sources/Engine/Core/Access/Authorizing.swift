// Authorizing: checks whether a peer may do what it requests, when a stream is opened or a single message is published.

import ForebayWire

final class Authorization: ShardPart {
    init(_ context: ShardContext, access: AccessTable) {
        self.access = access
        super.init(context)
    }

    /// All users and their permissions. A reload replaces it.
    var access: AccessTable

    /// - Parameter peer: the peer's address and port, for the log.
    /// - Throws: the refusal to send. A fire-and-forget publish gets no answer, so a denial is also logged.
    func expect(
        _ permission: Permission, _ topic: String, of principal: Principal, at peer: String
    ) throws(Refusal) {
        guard !principal.permissions.allow(permission, topic) else { return }
        note(denied: permission, topic, of: principal, at: peer)
        throw Authorization.denial(permission, topic, of: principal)
    }

    private func note(denied permission: Permission, _ topic: String, of principal: Principal, at peer: String) {
        counters.denied += 1
        let who: [LogField] = principal.user.map { [("user", $0)] } ?? [("anonymous", "yes")]
        effects.log.append(
            LogRecord(
                level: .warning, message: "permission denied",
                fields: who + [("permission", "\(permission)"), ("topic", topic), ("peer", peer)], isFrequent: true))
    }

    static func denial(_ permission: Permission, _ topic: String, of principal: Principal) -> Refusal {
        let deed =
            switch permission {
            case .publish: "publish to '\(topic)'"
            case .subscribe: "subscribe to '\(topic)'"
            case .control: "control '\(topic)'"
            case .block: "subscribe to '\(topic)' with overflow=block"
            }
        return Refusal(.forbidden, "\(principal.title) may not \(deed); ask the broker's administrator for permission.")
    }

    /// Checks a single publish. Peers usually publish to the same topics again, so allowed topics are remembered.
    func expectPublish(to target: PublishTarget, _ connection: Connection) throws(Refusal) {
        guard !connection.login.allowedTargets.contains(target) else { return }
        try expect(.publish, target.name, of: connection.principal ?? .nobody, at: connection.peer)
        connection.login.allowedTargets.insert(target)
    }

    /// Checks a subscription. The broker's own topics reveal data about all clients and need the `control` permission.
    func expectSubscribe(
        to topic: String, _ options: SubscribeOptions, of principal: Principal, at peer: String
    ) throws(Refusal) {
        try expect(TopicName.isSystem(topic) ? .control : .subscribe, topic, of: principal, at: peer)
        if options.overflow == .block { try expect(.block, topic, of: principal, at: peer) }
    }

    /// Checks a subscription to a pattern, which must lie within what the principal may subscribe to.
    func expectSubscribe(to pattern: TopicPattern, of principal: Principal, at peer: String) throws(Refusal) {
        let permissions = principal.permissions
        let permission: Permission = pattern.isOfBroker ? .control : .subscribe
        if (pattern.isOfBroker ? permissions.control : permissions.subscribe).covers(pattern) { return }
        note(denied: permission, pattern.description, of: principal, at: peer)
        throw Refusal(
            .forbidden,
            "\(principal.title) may not subscribe to every topic that '\(pattern)' matches; use a narrower pattern, or "
                + "ask the broker's administrator for permission.")
    }

    /// Checks a control call.
    func expectCall(_ call: ControlRequest, of principal: Principal, at peer: String) throws(Refusal) {
        if case .topic(let name, .info) = call.subject {
            if call.isForPublishing {
                try checkPublish(to: name)
                return try expect(.publish, name, of: principal, at: peer)
            }
            if principal.permissions.show(name) { return }
            counters.denied += 1
            // A refusal that named only `control` would make users ask for that permission, which allows much more.
            throw Refusal(
                .forbidden,
                "\(principal.title) may not publish to, subscribe to or control '\(name)'; "
                    + "ask the broker's administrator for one of these permissions.")
        }
        if case .publisher(let name, _) = call.subject {
            try checkPublish(to: name)
            return try expect(.publish, name, of: principal, at: peer)
        }
        try expect(.control, call.permitted, of: principal, at: peer)
    }

    // Lists contain only what the principal may see.

    /// Lists that can show the principal more than its own items.
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

    /// Whether the principal may list a subscription: its own, and those to topics that it may control.
    func mayList(_ subscriber: Subscriber, _ principal: Principal) -> Bool {
        isOwn(subscriber.principal, principal)
            || principal.permissions.control.contains(subscriber.view.name)
    }

    /// Whether the principal may list a subscription to a pattern: its own, and those within what it may control.
    func mayList(_ subscription: PatternSubscription, _ principal: Principal) -> Bool {
        isOwn(subscription.principal, principal) || principal.permissions.control.covers(subscription.pattern)
    }

    /// Whether the principal may list a connection: its own, or all of them with the permission to control the list.
    func mayList(_ connection: Connection, _ principal: Principal) -> Bool {
        if principal.permissions.control.contains(BrokerList.connections.rawValue) { return true }
        let owner = connection.owner
        return owner.map { isOwn($0, principal) } ?? false
    }

    /// Whether the principal owns something. Only a user name proves ownership: all anonymous peers share one
    /// principal.
    private func isOwn(_ owner: Principal, _ principal: Principal) -> Bool {
        owner.user != nil && owner.user == principal.user
    }

    /// Refuses names that clients cannot publish to.
    func checkPublish(to name: String) throws(Refusal) {
        if TopicName.isSystem(name) {
            throw Refusal(.forbidden, "'\(name)' belongs to the broker; clients cannot publish to it.")
        }
        if let fault = TopicName.fault(name) { throw .invalid(fault) }
    }

    /// The principal of a connection that sends no credentials; nil if it needs some.
    func unasked(_ certificate: PeerCertificate?) -> Principal? { access.unasked(certificate) }
}
