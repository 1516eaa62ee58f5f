// Requests: what a peer's frames ask of the engine.

import Bytes
import ForebayWire
import Replay
import RSocket

extension Shard {
    func handle(_ event: Event, on connection: Connection, now: Instant) {
        switch event {
        case .setup(let setup):
            accept(setup, on: connection, now: now)
        case .resume(let request):
            handOver(connection, request, now: now)
        case .request(let stream, let kind, let initialN, let complete, let content):
            request(connection, stream, kind, initialN: initialN, complete: complete, content, now: now)
        case .payload(_, let handle, let next, let complete, let content):
            guard let publisher = stream(handle, .publisher).map({ unsafeDowncast($0, to: Publisher.self) }) else {
                return
            }
            payload(publisher, next: next, complete: complete, content, now: now)
        case .payloads(let run, let handle):
            guard let publisher = stream(handle, .publisher).map({ unsafeDowncast($0, to: Publisher.self) }) else {
                return
            }
            items(publisher, run, now: now)
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
                let received = self.position(of: connection)
                connection.output.keepalive {
                    FrameWriter.keepalive(respond: false, position: received, data: data, into: &$0)
                }
                flush(connection)
            }
            heard(position, on: connection, now: now)
        case .metadataPush:
            break
        case .refuse(let stream, let handle, let error):
            if let limit = LimitReached(error.bound) { reached(limit) }
            if let loss = PublishLoss(unfinished: error.bound) { refusedUnfinished(loss) }
            if let handle, let bound = self.stream(handle, nil) {
                revoke(bound, Refusal(error), now: now)
            } else {
                sayRefused(Refusal(error), on: connection, stream: stream)
            }
        case .drop(_, let error):
            dropped(PublishLoss(unfinished: error.bound) ?? .tooLarge, of: nil)
        case .fatal(let error):
            fatal(connection, error, now: now)
        case .closedByPeer(_, let message):
            let text = String(decoding: message, as: UTF8.self)
            close(connection, reason: "the peer ended it: \(text)", now: now)
        }
    }

    /// The object behind a stream, which the connection's table named.
    private func stream(_ handle: UInt32, _ kind: BoundStream.Kind?) -> BoundStream? {
        guard Int(handle) < streams.bound, let stream = streams.at(Int(handle)) else { return nil }
        guard let kind else { return stream }
        return stream.kind == kind ? stream : nil
    }

    private func accept(_ setup: Setup, on connection: Connection, now: Instant) {
        let lifetime = UInt64(setup.lifetime) * 1_000_000
        connection.lifetime = Swift.min(Swift.max(lifetime, limits.lifetime.lowerBound), limits.lifetime.upperBound)
        logIn(connection, setup, now: now)
    }

    private func request(
        _ connection: Connection, _ stream: UInt32, _ kind: Interaction, initialN: UInt32,
        complete: Bool, _ content: Content, now: Instant
    ) {
        var topic: String?
        do throws(Refusal) {
            if draining { throw Shard.drainingRefusal }
            let tags = try routeTags(content.metadata, of: connection)
            switch kind {
            case .response, .fireAndForget:
                guard let target = try target(tags, isAnswered: kind == .response) else {
                    return try call(connection, stream: stream, try ControlRequest.read(Route(tags)), now: now)
                }
                topic = target.name
                try expectPublish(to: target, connection)
                let metadata = tags.isAlone ? nil : try carried(content.metadata, of: connection)
                if kind == .response {
                    try publish(
                        connection, stream: stream, to: target, metadata: metadata, payload: content.data, now: now)
                } else {
                    try fire(connection, to: target, metadata: metadata, payload: content.data, now: now)
                }
            case .stream:
                try subscribe(connection, stream: stream, initialN: initialN, Route(tags), now: now)
            case .channel:
                let route = try Route(tags)
                try openChannel(
                    connection, stream: stream, to: route.name, PublishOptions(route), initialN: initialN,
                    complete: complete, metadata: try carried(content.metadata, of: connection), payload: content.data,
                    now: now)
            }
        } catch {
            guard kind != .fireAndForget else {
                return dropped(PublishLoss(error), of: topic)
            }
            connection.rsocket.closeStream(stream)
            sayRefused(error, on: connection, stream: stream)
        }
    }

    /// The route of a request, where it lies.
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
    private func target(_ tags: RouteTags, isAnswered: Bool) throws(Refusal) -> PublishTarget? {
        if let known = peers.publishTargets.find(tags) { return known }
        let route = try Route(tags)
        if isAnswered, TopicName.isSystem(route.name) { return nil }
        try route.expect([], for: "an acknowledged publish")
        try checkPublish(to: route.name)
        let target = PublishTarget(name: route.name, owner: owner(of: route.name))
        peers.publishTargets.insert(target, for: tags)
        return target
    }

    /// The same for a request over HTTP whose topic may be published to.
    func target(named name: String, of connection: Connection) -> PublishTarget {
        let target = self.target(named: name)
        if !connection.allowedTargets.contains(target) { connection.allowedTargets.insert(target) }
        return target
    }

    /// By the name of a topic, which as a route names itself.
    private func target(named name: String) -> PublishTarget {
        var route = name
        return route.withUTF8 { bytes in
            guard let tags = try? RouteTags(UnsafeRawBufferPointer(bytes), form: .plain) else {
                return PublishTarget(name: name, owner: owner(of: name))
            }
            if let known = peers.publishTargets.find(tags) { return known }
            let target = PublishTarget(name: name, owner: owner(of: name))
            peers.publishTargets.insert(target, for: tags)
            return target
        }
    }

    /// A publisher's own metadata, without route and authentication; nil where there is none.
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
                item(publisher, metadata: metadata, payload: content.data, now: now)
            } catch {
                revoke(publisher, error, now: now)
            }
        }
        // The item may have been refused, and the channel be gone.
        guard complete, streams[publisher.handle] === publisher else { return }
        ended(publisher, .completed, now: now)
    }

    private func requestN(_ n: UInt32, stream: UInt32, handle: UInt32, on connection: Connection, now: Instant) {
        guard let bound = self.stream(handle, nil) else { return }
        switch bound.kind {
        case .subscriber:
            request(n, of: unsafeDowncast(bound, to: Subscriber.self), now: now)
        case .publisher:
            request(n, of: unsafeDowncast(bound, to: Publisher.self))
        case .listing:
            request(n, of: unsafeDowncast(bound, to: Listing.self), now: now)
        case .call:
            break
        }
    }

    /// The peer ended a stream.
    private func leave(_ stream: BoundStream, _ end: PublisherEnd, now: Instant) {
        if stream.kind == .publisher {
            ended(unsafeDowncast(stream, to: Publisher.self), end, now: now)
        }
        if streams[stream.handle] === stream { drop(stream) }
    }

    // Ends

    /// Answers a request, and so ends its stream.
    func reply(_ description: Description?, to stream: BoundStream) {
        sayAnswer(description, to: stream)
        drop(stream)
    }

    /// Ends a stream with an error, behind the messages or rows that were handed over before it.
    func fail(_ stream: BoundStream, _ refusal: Refusal) {
        guard streams[stream.handle] === stream else { return }
        switch stream.kind {
        case .subscriber:
            sayFailed(refusal, to: stream)
            unsafeDowncast(stream, to: Subscriber.self).end = refusal.message
        case .listing: sayFailed(refusal, to: stream)
        case .publisher, .call: sayRefused(refusal, on: stream.connection, stream: stream.stream)
        }
        drop(stream)
    }

    /// The same where a publisher's topic does not know yet: it is told as if the publisher had cancelled.
    func revoke(_ stream: BoundStream, _ refusal: Refusal, now: Instant) {
        if stream.kind == .publisher {
            ended(unsafeDowncast(stream, to: Publisher.self), .cancelled, now: now)
        }
        fail(stream, refusal)
    }

    /// Forgets a stream: its end has been told, or nobody wants to know.
    func drop(_ stream: BoundStream) {
        stream.connection.close(stream: stream.stream)
        if let exchange = stream.exchange {
            exchange.bound = nil
            if stream.isLasting { exchange.connection.http?.lasting -= 1 }
            stream.exchange = nil
        }
        stream.connection.detach(stream)
        streams.remove(stream.handle)
        switch stream.kind {
        case .subscriber: forget(unsafeDowncast(stream, to: Subscriber.self))
        case .publisher: forget(unsafeDowncast(stream, to: Publisher.self))
        case .listing: forget(unsafeDowncast(stream, to: Listing.self))
        case .call: break
        }
    }
}
