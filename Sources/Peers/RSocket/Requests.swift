// Requests: turns a peer's frames into calls to the engine.

import Bytes
import ForebayWire
import Replay
import RSocket

final class RSocketRequests: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let peers: PeerState
    let losses: PublishLosses
    let authorization: Authorization
    let responses: Responses
    let ends: StreamEnds
    let subscribing: Subscribing
    let patterns: PatternSubscribing
    let publishing: Publishing
    let connectionEnds: ConnectionEnds
    let listRequests: ListRequests
    let calls: ControlRequests
    let logins: Logins
    // Above
    unowned(unsafe) var resumption: Resumption!

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ peers: PeerState,
        _ losses: PublishLosses, _ authorization: Authorization, _ responses: Responses, _ ends: StreamEnds,
        _ subscribing: Subscribing, _ patterns: PatternSubscribing, _ publishing: Publishing,
        _ connectionEnds: ConnectionEnds,
        _ listRequests: ListRequests,
        _ calls: ControlRequests, _ logins: Logins
    ) {
        self.streams = streams
        self.connections = connections
        self.peers = peers
        self.losses = losses
        self.authorization = authorization
        self.responses = responses
        self.ends = ends
        self.subscribing = subscribing
        self.patterns = patterns
        self.publishing = publishing
        self.connectionEnds = connectionEnds
        self.listRequests = listRequests
        self.calls = calls
        self.logins = logins
        super.init(context)
    }

    func handle(_ event: Event, on connection: Connection, now: Instant) {
        switch event {
        case .setup(let setup):
            accept(setup, on: connection, now: now)
        case .resume(let request):
            resumption.handOver(connection, request, now: now)
        case .request(let stream, let kind, let initialN, let complete, let content):
            request(connection, stream, kind, initialN: initialN, complete: complete, content, now: now)
        case .payload(_, let handle, let next, let complete, let content):
            guard let publisher = stream(handle, .publisher).map({ $0.asPublisher }) else {
                return
            }
            payload(publisher, next: next, complete: complete, content, now: now)
        case .payloads(let run, let handle):
            guard let publisher = stream(handle, .publisher).map({ $0.asPublisher }) else {
                return
            }
            publishing.items(publisher, run, now: now)
        case .requestN(let stream, let handle, let n):
            requestN(n, stream: stream, handle: handle, on: connection, now: now)
        case .cancel(_, let handle):
            guard let stream = self.stream(handle, nil) else { return }
            leave(stream, .cancelled, now: now)
        case .error(_, let handle, _, let message):
            guard let stream = self.stream(handle, nil) else { return }
            let reason = UnsafeRawBufferPointer(rebasing: message.prefix(ControlRequest.longestReason))
            leave(stream, .failed(String(decoding: reason, as: UTF8.self)), now: now)
        case .keepalive(let respond, let position, let data):
            if respond {
                let received = responses.position(of: connection)
                connection.output.keepalive {
                    FrameWriter.keepalive(respond: false, position: received, data: data, into: &$0)
                }
                connections.flush(connection)
            }
            resumption.heard(position, on: connection, now: now)
        case .metadataPush:
            break
        case .refuse(let stream, let handle, let error):
            if let limit = LimitReached(error.bound) { reached(limit) }
            if let loss = PublishLoss(unfinished: error.bound) { losses.refusedUnfinished(loss) }
            if let handle, let bound = self.stream(handle, nil) {
                ends.revoke(bound, Refusal(error), now: now)
            } else {
                responses.sendRefusal(Refusal(error), on: connection, stream: stream)
            }
        case .drop(_, let error):
            losses.dropped(PublishLoss(unfinished: error.bound) ?? .tooLarge, of: nil)
        case .fatal(let error):
            connectionEnds.fatal(connection, error, now: now)
        case .closedByPeer(_, let message):
            let text = String(decoding: message, as: UTF8.self)
            connectionEnds.close(connection, reason: "the peer ended it: \(text)", now: now)
        }
    }

    /// The object bound to a stream, by its handle in the connection's table.
    private func stream(_ handle: UInt32, _ kind: BoundStream.Kind?) -> BoundStream? {
        guard Int(handle) < streams.bound, let stream = streams.at(Int(handle)) else { return nil }
        guard let kind else { return stream }
        return stream.kind == kind ? stream : nil
    }

    private func accept(_ setup: Setup, on connection: Connection, now: Instant) {
        let lifetime = UInt64(setup.lifetime) * 1_000_000
        connection.liveness.lifetime = Swift.min(
            Swift.max(lifetime, limits.lifetime.lowerBound), limits.lifetime.upperBound)
        logIn(connection, setup, now: now)
    }

    private func request(
        _ connection: Connection, _ stream: UInt32, _ kind: Interaction, initialN: UInt32,
        complete: Bool, _ content: Content, now: Instant
    ) {
        var topic: String?
        do throws(Refusal) {
            if draining { throw Refusal.draining }
            let tags = try routeTags(content.metadata, of: connection)
            switch kind {
            case .response, .fireAndForget:
                var number: PublisherNumber?
                guard let target = try target(tags, isAnswered: kind == .response, &number) else {
                    var route = try Route(tags)
                    if ControlCall.Name(rawValue: route.name) != nil { try route.addOptions(from: content.data) }
                    return try calls.call(connection, stream: stream, try ControlRequest.read(route), now: now)
                }
                topic = target.name
                try authorization.expectPublish(to: target, connection)
                let metadata = tags.isAlone ? nil : try carried(content.metadata, of: connection)
                if kind == .response {
                    try publishing.publish(
                        connection, stream: stream, to: target, number, metadata: metadata, payload: content.data,
                        now: now)
                } else {
                    try publishing.fireAndForget(
                        connection, to: target, metadata: metadata, payload: content.data, now: now)
                }
            case .stream:
                try subscribe(connection, stream: stream, initialN: initialN, Route(tags), content.data, now: now)
            case .channel:
                let route = try Route(tags)
                try publishing.openChannel(
                    connection, stream: stream, to: route.name, PublishOptions(route), route.publisherNumber(),
                    initialN: initialN, complete: complete,
                    metadata: try carried(content.metadata, of: connection), payload: content.data, now: now)
            }
        } catch {
            guard kind != .fireAndForget else {
                return losses.dropped(PublishLoss(error), of: topic)
            }
            connection.rsocket.closeStream(stream)
            responses.sendRefusal(error, on: connection, stream: stream)
        }
    }

    /// The route of a request, as a view of its bytes.
    private func routeTags(
        _ metadata: UnsafeRawBufferPointer?, of connection: Connection
    ) throws(Refusal) -> RouteTags {
        do throws(RSocketError) {
            return try RouteTags(metadata, form: connection.rsocket.metadataForm)
        } catch {
            throw Refusal(error)
        }
    }

    /// Where a single publish goes; nil if it is a control call.
    /// - Parameter number: set if the message is numbered.
    private func target(
        _ tags: RouteTags, isAnswered: Bool, _ number: inout PublisherNumber?
    ) throws(Refusal) -> PublishTarget? {
        if let known = peers.publishTargets.find(tags) { return known }
        let route = try Route(tags)
        if isAnswered, TopicName.isSystem(route.name) { return nil }
        try route.expect(PublishOptions.ofSingles, for: "an acknowledged publish")
        try authorization.checkPublish(to: route.name)
        number = try route.publisherNumber()
        if number != nil {
            guard isAnswered else {
                throw .invalid(
                    "A fire-and-forget publish is not acknowledged, so it cannot be numbered; use REQUEST_RESPONSE.")
            }
            return peers.target(named: route.name)
        }
        let target = PublishTarget(name: route.name, owner: owner(of: route.name))
        peers.publishTargets.insert(target, for: tags)
        return target
    }

    /// A publisher's own metadata, without route and authentication; nil if there is none.
    private func carried(
        _ metadata: UnsafeRawBufferPointer?, of connection: Connection
    ) throws(Refusal) -> UnsafeRawBufferPointer? {
        let form = connection.rsocket.metadataForm
        do throws(RSocketError) {
            guard let metadata,
                try CompositeMetadata.carriedCount(metadata, form: form, most: Limits.metadataEntries) > 0
            else { return nil }
            peers.carriedMetadata.removeAll()
            try CompositeMetadata.appendCarried(metadata, form: form, into: &peers.carriedMetadata)
            return peers.carriedMetadata.isEmpty ? nil : peers.carriedMetadata.readable
        } catch {
            if error.bound == .metadata { reached(.metadata) }
            throw Refusal(error)
        }
    }

    private func payload(_ publisher: Publisher, next: Bool, complete: Bool, _ content: Content, now: Instant) {
        if next {
            do throws(Refusal) {
                let metadata = try carried(content.metadata, of: publisher.connection)
                publishing.item(publisher, metadata: metadata, payload: content.data, now: now)
            } catch {
                ends.revoke(publisher, error, now: now)
            }
        }
        // The item may have been refused and the channel removed.
        guard complete, streams[publisher.handle] === publisher else { return }
        publishing.ended(publisher, .completed, now: now)
    }

    private func requestN(_ n: UInt32, stream: UInt32, handle: UInt32, on connection: Connection, now: Instant) {
        guard let bound = self.stream(handle, nil) else { return }
        switch bound.kind {
        case .subscriber:
            subscribing.request(n, of: bound.asSubscriber, now: now)
        case .pattern:
            patterns.request(n, of: bound.asPattern, now: now)
        case .publisher:
            publishing.request(n, of: bound.asPublisher)
        case .listStream:
            listRequests.request(n, of: bound.asListStream, now: now)
        case .call:
            break
        }
    }

    /// Ends what is bound to a stream that the peer ended.
    private func leave(_ stream: BoundStream, _ end: PublisherEnd, now: Instant) {
        if stream.kind == .publisher {
            publishing.ended(stream.asPublisher, end, now: now)
        }
        if streams[stream.handle] === stream { ends.drop(stream) }
    }

    /// Opens a subscription or one of the lists.
    private func subscribe(
        _ connection: Connection, stream: UInt32, initialN: UInt32, _ route: Route, _ data: UnsafeRawBufferPointer,
        now: Instant
    ) throws(Refusal) {
        if let list = BrokerList(rawValue: route.name) {
            try route.expect([], for: route.name)
            try listRequests.openList(connection, stream: stream, initialN: initialN, list, now: now)
            return
        }
        let options = try SubscribeOptions(route)
        // The data of other subscriptions is ignored.
        let positions = TopicName.isPattern(route.name) ? try parsePositions(data) : []
        try subscribing.subscribe(
            connection, stream: stream, initialN: initialN, to: route.name, options, from: positions, now: now)
    }
}
