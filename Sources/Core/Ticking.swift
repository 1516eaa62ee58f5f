// Ticking: what happens with time alone. A few times a second each shard looks over its connections and topics for
// limits of time that have passed.

import Replay
import RSocket

extension Shard {
    static let tickInterval: UInt64 = Limits.second / 4

    /// `deadline` has passed.
    public func fire(now: Instant) {
        moment = now
        if now.monotonic >= nextPayment {
            payWaiting(now: now)
            settle(now)
        }
        guard now.monotonic >= nextTick else { return }
        lateness = now.monotonic - nextTick
        if lateness >= Limits.standstill { excuse(lateness, now: now) }
        nextTick = now.monotonic + Shard.tickInterval
        for place in 0..<connections.bound {
            if let connection = connections.at(place) { tick(connection, now: now) }
        }
        tickMeters(now: now)
        for topic in topics.values.sorted(by: { $0.epoch < $1.epoch }) {
            topic.tick(now: now)
            if let since = topic.idleSince, !TopicName.isSystem(topic.name), now.monotonic - since >= limits.topicIdle {
                remove(topic)
                event("topic-removed", topic: topic.name, epoch: topic.epoch)
            }
        }
        for mirror in mirrorsByEpoch.values.sorted(by: { $0.epoch < $1.epoch }) { tick(mirror, now: now) }
        if memory.used > memory.limit - memory.limit / 20 { relieveMemory(now: now) }
        if now.monotonic >= nextStatistics { tellStatistics(now: now) }
        settle(now)
    }

    /// This thread did not run for a while: the process was stopped, or its machine was busy with something else. What
    /// clients said meanwhile has not been read, and they could not be asked; so that time does not count against them.
    private func excuse(_ late: UInt64, now: Instant) {
        for place in 0..<connections.bound { connections.at(place)?.excuse(late, now: now.monotonic) }
        for mirror in mirrorsByEpoch.values where mirror.blocking > 0 {
            for subscriber in mirror.members {
                subscriber.fullSince = subscriber.fullSince.map { $0.excused(late, now: now.monotonic) }
            }
        }
        let milliseconds = String(late / 1_000_000)
        effects.log.append(
            LogRecord(
                level: .warning, message: "stood still",
                fields: [("shard", String(index)), ("milliseconds", milliseconds)]))
    }

    private func tick(_ connection: Connection, now: Instant) {
        let time = now.monotonic
        switch connection.phase {
        case .new where draining:
            close(connection, reason: "the broker is shutting down", now: now)
        // The driver answers in time.
        case .new where connection.ticket != nil:
            break
        case .new:
            // While the shard is busy with those who came before, it has not read what this one said.
            connection.delaySetup(lateness, now: time)
            guard time - connection.setupSince >= limits.setupTime else { return }
            reached(.setupTime)
            if connection.http?.http1 != nil {
                return close(connection, reason: "no request came to its end in time", now: now)
            }
            let due = connection.http == nil ? "SETUP" : "HTTP/2's preface and SETTINGS"
            fatal(connection, error(.invalidSetup, "\(due) did not come in time; send it first and at once."), now: now)
        case .open where connection.isDetached:
            tickDetached(connection, since: connection.session?.detachedAt ?? time, now: now)
        case .open:
            endExpired(connection, now: now)
            if connection.isOpen { tickOpen(connection, now: now) }
            if draining, connection.isOpen { closeIfDrained(connection, now: now) }
        case .closing(let deadline):
            if time >= deadline { close(connection, reason: "closed after an error", now: now) }
        case .closed:
            break
        }
    }

    private func tickOpen(_ connection: Connection, now: Instant) {
        if let http = connection.http, let http1 = http.http1 {
            return tickHTTP1(connection, http, http1, now: now)
        }
        // Nothing can be heard from a peer that is not read.
        if !connection.isReading { connection.lastHeard = now.monotonic }
        let silent = now.monotonic - connection.lastHeard
        if silent >= connection.lifetime {
            let seconds = connection.lifetime / Limits.second
            reached(connection.http == nil ? .lifetime : .httpSilence)
            if connection.session != nil { return unplug(connection, reason: "nothing was heard of it", now: now) }
            fatal(
                connection,
                error(.connectionError, "Nothing was heard for the lifetime of \(seconds) s; send KEEPALIVE."),
                now: now)
            return
        }
        if silent >= connection.lifetime / 2, !connection.probed {
            connection.probed = true
            sayProbe(on: connection)
        }
        if let since = connection.unreadSince, now.monotonic - since >= limits.unreadTime {
            reached(.unreadTime)
            unplug(connection, reason: "it left its answers unread", now: now)
            return
        }
        // What memory that was short held back. Where it was not when something was written, it may be now.
        if connection.session != nil {
            askForAcknowledgement(connection)
            if connection.hungryCount > 0 || !connection.waitingListings.isEmpty { fill(connection, now: now) }
        }
        if let since = connection.rsocket.oldestReassembly, now.monotonic - since >= limits.reassemblyTime {
            connection.rsocket.expireReassembly(startedBefore: now.monotonic - limits.reassemblyTime + 1)
            take(connection, now: now)
        }
        if let http = connection.http, let session = http.session {
            if session.pointee.hasPartialFrame, silent >= limits.reassemblyTime {
                reached(.reassemblyTime)
                let reason = "A frame that had begun did not come to its end in time; send frames whole."
                return fatal(connection, error(.connectionError, reason), now: now)
            }
            http.takeErrors(into: &counters)
            expire(http, now: now)
            feedCrowded(http, now: now)
            sendHeartbeats(http, now: now)
            if let deadline = session.pointee.deadline, deadline <= now.monotonic {
                session.pointee.expire(now: now.monotonic)
                flush(connection)
            }
        }
        charge(connection)
    }

    /// A `block` subscription that stays full without progress gives way.
    private func tick(_ mirror: Mirror, now: Instant) {
        for subscriber in mirror.blocking > 0 ? mirror.members : [] where subscriber.cursor.overflow == .block {
            guard let floor = subscriber.cursor.floor, isFull(subscriber, from: floor) else {
                subscriber.fullSince = nil
                continue
            }
            if subscriber.fullSince == nil || subscriber.fullAt != floor {
                subscriber.fullSince = now.monotonic
                subscriber.fullAt = floor
            } else if now.monotonic - subscriber.fullSince! >= limits.blockLimit {
                subscriber.cursor.fail(.blockedTooLong)
                deliver(subscriber, now: now)
            }
        }
        mirror.markDirty()
    }

    /// Whether publishers must wait for a `block` subscription that waits for the messages from `floor` on: it holds as
    /// many as it may, or the topic has no bytes left for one more.
    private func isFull(_ subscriber: Subscriber, from floor: SequenceNumber) -> Bool {
        let log = subscriber.mirror.log
        guard floor < log.end else { return false }
        let free = subscriber.mirror.byteLimit - log.bytes(from: floor)
        return log.end - floor >= subscriber.options.buffer || free < subscriber.mirror.typical
    }

    private func tellStatistics(now: Instant) {
        nextStatistics = now.monotonic + Limits.second
        forgetMeters()
        let counters = currentCounters()
        let owner = owner(of: SystemTopic.stats)
        if owner == index {
            statistics.take(counters, from: index)
            publishSystem(
                SystemTopic.stats, statistics.object(memory: memory.used, now: now).finished(), now: now)
        } else {
            send(.stats(shard: index, counters), to: owner)
        }
    }

    func error(_ code: ErrorCode, _ message: String) -> RSocketError {
        RSocketError(code: code, message: message, scope: .connection)
    }
}
