// ShardParts: all parts of a shard. They are created lowest first, each with the parts below it that it calls. Calls to
// a part above use a reference that `connect` sets once all parts exist.

final class ShardParts {
    let tables: Tables
    let output: Output
    let requests: Requests
    let protocols: Protocols
    let turn: Turn

    init(_ context: ShardContext, access: AccessTable) {
        tables = Tables(context, access: access)
        output = Output(context, tables)
        requests = Requests(context, tables, output)
        protocols = Protocols(context, tables, output, requests)
        turn = Turn(context, tables, output, requests, protocols)
        connect()
    }

    /// Sets the references to parts above.
    private func connect() {
        tables.events.ownership = output.ownership
        output.sender.ends = output.ends
        output.blocking.delivery = output.delivery
        output.delivery.history = output.history
        output.delivery.subscribing = requests.subscribing
        output.delivery.patterns = output.patternDelivery
        output.views.patterns = requests.patterns
        output.ends.subscribing = requests.subscribing
        output.ends.patterns = requests.patterns
        output.ends.publishing = requests.publishing
        output.ends.listRequests = requests.listRequests
        output.notices.intake = requests.intake
        output.ownership.calls = requests.calls
        output.ownership.subscribing = requests.subscribing
        output.ownership.followers = requests.followers
        output.ownership.attachment = requests.attachment
        requests.subscribing.attachment = requests.attachment
        requests.subscribing.patterns = requests.patterns
        requests.followers.patterns = requests.patterns
        requests.connectionEnds.resumption = protocols.resumption
        protocols.logins.httpLogins = protocols.httpLogins
        protocols.logins.inputs = protocols.inputs
        protocols.logins.resumption = protocols.resumption
        protocols.httpLogins.httpCalls = protocols.httpCalls
        protocols.httpLogins.plainRequests = protocols.plainRequests
        protocols.httpCalls.httpAdmin = protocols.httpAdmin
        protocols.rsocketRequests.resumption = protocols.resumption
        protocols.inputs.resumption = protocols.resumption
        protocols.inputs.http1Inputs = protocols.http1Inputs
        protocols.resumption.scheduler = turn.scheduler
        turn.unreadRelief.scheduler = turn.scheduler
    }

    /// Breaks reference cycles when the shard is deallocated.
    func dismantle() {
        tables.connections.removeAll()
        tables.streams.removeAll()
        requests.patterns.removeAll()
        requests.followers.links.removeAll()
        output.views.removeAll()
        tables.topics.removeAll()
    }
}

extension ShardParts {
    /// State, and permissions.
    struct Tables {
        let timers: Timers
        let auditLog: AuditLog
        let streams: StreamTable
        let connections: ConnectionTable
        let topics: TopicTable
        let subscriptions: SubscriptionTable
        let rateLimiter: RateLimiter
        let relief: MemoryRelief
        let reports: Reports
        let forwarding: Forwarding
        let peers: PeerState
        let losses: PublishLosses
        let events: Events
        let authorization: Authorization

        init(_ context: ShardContext, access: AccessTable) {
            timers = Timers(context)
            auditLog = AuditLog(context)
            streams = StreamTable(context)
            connections = ConnectionTable(context, timers)
            topics = TopicTable(context: context)
            subscriptions = SubscriptionTable(context: context)
            rateLimiter = RateLimiter(context: context)
            relief = MemoryRelief(context: context, topics: topics)
            reports = Reports(context)
            forwarding = Forwarding(context: context)
            peers = PeerState(context)
            losses = PublishLosses(context, topics, reports)
            events = Events(context, reports)
            authorization = Authorization(context, access: access)
        }
    }

    /// Output: answers, messages, ends, notices.
    struct Output {
        let reading: Reading
        let users: ConnectionUsers
        let httpResponses: HTTPResponses
        let responses: Responses
        let messageDelivery: MessageDelivery
        let entryDelivery: EntryDelivery
        let sender: MessageSender
        let blocking: Blocking
        let delivery: Delivery
        let patternDelivery: PatternDelivery
        let views: ViewTable
        let history: HistoryReading
        let ends: StreamEnds
        let notices: PublisherNotices
        let ownership: TopicOwnership

        init(_ context: ShardContext, _ tables: Tables) {
            reading = Reading(context, tables.relief, tables.forwarding, tables.losses)
            users = ConnectionUsers(context, tables.timers, tables.rateLimiter, tables.authorization)
            httpResponses = HTTPResponses(
                context, tables.connections, tables.subscriptions, tables.relief, tables.peers)
            responses = Responses(context, tables.connections, tables.peers, httpResponses)
            messageDelivery = MessageDelivery(context, tables.connections)
            entryDelivery = EntryDelivery(context, tables.connections)
            sender = MessageSender(context, httpResponses, messageDelivery, entryDelivery)
            blocking = Blocking(context, tables.timers)
            delivery = Delivery(context, tables.timers, sender, blocking)
            patternDelivery = PatternDelivery(context, delivery)
            views = ViewTable(context, tables.timers, tables.topics, tables.relief, tables.reports, delivery)
            history = HistoryReading(context, delivery, views)
            ends = StreamEnds(context, tables.streams, responses)
            notices = PublisherNotices(context, tables.streams, tables.rateLimiter, responses, ends)
            ownership = TopicOwnership(
                context, tables.timers, tables.auditLog, tables.topics, tables.rateLimiter, tables.relief,
                tables.losses, tables.events, views, notices)
        }
    }

    /// Requests, independent of protocols.
    struct Requests {
        let subscribing: Subscribing
        let followers: PatternFollowers
        let patterns: PatternSubscribing
        let attachment: ViewAttachment
        let intake: PublishIntake
        let publishing: Publishing
        let descriptions: Descriptions
        let connectionEnds: ConnectionEnds
        let listRequests: ListRequests
        let calls: ControlRequests
        let statistics: BrokerStatistics
        let surveys: Surveys

        init(_ context: ShardContext, _ tables: Tables, _ output: Output) {
            subscribing = Subscribing(
                context, tables.auditLog, tables.streams, tables.topics, tables.subscriptions, tables.events,
                tables.authorization, output.reading, output.users, output.responses, output.delivery, output.views,
                output.ends, output.ownership)
            followers = PatternFollowers(context, tables.topics, output.ownership)
            patterns = PatternSubscribing(
                context, PatternTable(context), tables.streams, tables.subscriptions, tables.events,
                tables.authorization, output.reading, output.users, output.delivery, output.views, output.ends,
                subscribing, followers)
            attachment = ViewAttachment(
                context, tables.topics, output.reading, output.views, output.ends, output.ownership, subscribing,
                patterns)
            intake = PublishIntake(
                context, tables.streams, tables.topics, tables.losses, output.notices, output.ownership)
            publishing = Publishing(
                context, tables.streams, tables.topics, tables.rateLimiter, tables.relief, tables.forwarding,
                tables.losses, tables.authorization, output.reading, output.users, output.responses, output.ends,
                output.notices, output.ownership, intake)
            descriptions = Descriptions(context, tables.rateLimiter, tables.authorization)
            connectionEnds = ConnectionEnds(
                context, tables.timers, tables.connections, tables.events, output.reading, output.users,
                output.httpResponses, output.responses, output.ends)
            listRequests = ListRequests(
                context, tables.streams, tables.connections, tables.topics, tables.authorization, output.responses,
                output.ends, descriptions)
            calls = ControlRequests(
                context, tables.auditLog, tables.streams, tables.connections, tables.subscriptions,
                tables.authorization, output.reading, output.users, output.ends, output.ownership, descriptions,
                connectionEnds)
            statistics = BrokerStatistics(
                context, tables.timers, tables.connections, tables.topics, tables.subscriptions, patterns.table,
                tables.rateLimiter, tables.events)
            surveys = Surveys(
                context, tables.streams, tables.connections, tables.topics, output.views, listRequests, calls,
                statistics
            )
        }
    }

    /// Input, by protocol.
    struct Protocols {
        let logins: Logins
        let httpLogins: HTTPLogins
        let httpCalls: HTTPCalls
        let httpAdmin: HTTPAdmin
        let plainRequests: PlainRequests
        let feeding: OutputFeeding
        let rsocketRequests: RSocketRequests
        let httpInputs: HTTPInputs
        let inputs: ConnectionInputs
        let resumption: Resumption
        let http1Inputs: HTTP1Inputs
        let connectionTicks: ConnectionTicks

        init(_ context: ShardContext, _ tables: Tables, _ output: Output, _ requests: Requests) {
            logins = Logins(
                context, tables.connections, tables.peers, tables.events, tables.authorization, output.users,
                requests.connectionEnds)
            httpLogins = HTTPLogins(context, tables.authorization, output.users, output.httpResponses, logins)
            httpCalls = HTTPCalls(
                context, tables.streams, tables.relief, tables.peers, tables.authorization, output.reading,
                output.httpResponses, output.sender, output.ends, requests.subscribing, requests.publishing)
            httpAdmin = HTTPAdmin(context, output.httpResponses, requests.listRequests, requests.calls, httpCalls)
            plainRequests = PlainRequests(
                context, tables.streams, tables.connections, tables.relief, tables.peers, tables.authorization,
                output.reading, output.httpResponses, requests.subscribing, requests.publishing, requests.calls,
                httpLogins, httpCalls)
            feeding = OutputFeeding(
                context, tables.streams, tables.connections, tables.relief, output.delivery, requests.listRequests,
                httpAdmin)
            rsocketRequests = RSocketRequests(
                context, tables.streams, tables.connections, tables.peers, tables.losses, tables.authorization,
                output.responses, output.ends, requests.subscribing, requests.patterns, requests.publishing,
                requests.connectionEnds, requests.listRequests, requests.calls, logins)
            httpInputs = HTTPInputs(
                context, tables.connections, tables.peers, output.reading, output.httpResponses, output.delivery,
                output.ends, requests.connectionEnds, httpLogins, httpCalls, httpAdmin, plainRequests)
            inputs = ConnectionInputs(
                context, tables.timers, tables.connections, tables.relief, tables.events, tables.authorization,
                output.reading, output.notices, requests.connectionEnds, feeding, rsocketRequests, httpInputs)
            resumption = Resumption(
                context, tables.timers, tables.connections, tables.events, output.responses, requests.connectionEnds,
                feeding, inputs)
            http1Inputs = HTTP1Inputs(
                context, tables.connections, tables.relief, tables.peers, output.reading, output.httpResponses,
                requests.connectionEnds, httpCalls, plainRequests, httpInputs, inputs)
            connectionTicks = ConnectionTicks(
                context, tables.timers, tables.connections, output.httpResponses, output.responses,
                requests.connectionEnds, httpCalls, feeding, httpInputs, inputs, resumption, http1Inputs)
        }
    }

    /// What runs without a client's input: time, deferred work, messages from other shards.
    struct Turn {
        let unreadRelief: UnreadRelief
        let propagation: Propagation
        let scheduler: Scheduler
        let accessReview: AccessReview
        let ticker: Ticker
        let dispatch: ShardDispatch
        let inspector: Inspector

        init(_ context: ShardContext, _ tables: Tables, _ output: Output, _ requests: Requests, _ protocols: Protocols)
        {
            unreadRelief = UnreadRelief(context, tables.connections, tables.relief, requests.connectionEnds)
            propagation = Propagation(
                context, tables.connections, tables.topics, tables.rateLimiter, tables.reports, tables.forwarding,
                output.views, requests.attachment, requests.publishing, protocols.feeding)
            accessReview = AccessReview(context, tables.streams, tables.authorization, output.ends)
            scheduler = Scheduler(
                context, tables.connections, tables.topics, tables.authorization, output.users, output.delivery,
                output.views, output.ends, output.ownership, requests.connectionEnds, protocols.inputs,
                protocols.resumption, protocols.connectionTicks, accessReview, unreadRelief, propagation)
            ticker = Ticker(
                context, tables.timers, tables.topics, tables.rateLimiter, tables.relief, tables.events,
                output.blocking, output.ownership, requests.publishing, requests.statistics, protocols.feeding,
                protocols.resumption, protocols.connectionTicks, unreadRelief, propagation, scheduler)
            dispatch = ShardDispatch(
                context, tables.connections, tables.topics, tables.reports, tables.forwarding, tables.losses,
                tables.events, output.views, output.notices, output.ownership, requests.subscribing, requests.followers,
                requests.attachment, requests.intake,
                requests.listRequests, requests.calls, requests.statistics, protocols.inputs)
            inspector = Inspector(
                context, tables.streams, tables.connections, tables.topics, tables.subscriptions, tables.rateLimiter,
                tables.reports, tables.forwarding, output.views, requests.intake)
        }
    }
}
