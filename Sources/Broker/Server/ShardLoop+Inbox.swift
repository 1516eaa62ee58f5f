// ShardLoop+Inbox: how a loop handles messages from other threads.

import Core
import EventLoop
import Glibc

extension ShardLoop {
    func readInbox() {
        takeInbox()
        guard !queries.isEmpty else { return }
        let (job, query) = queries.removeFirst()
        shard.answer(query, job: job, now: now)
    }

    /// Handles the items of the inbox that come ahead of other inputs. Returns true if none are left.
    func clearInbox() -> Bool {
        let isClear = takeInbox(all: inputs.wereDelayed)
        if !isClear { inputs.areDelayed = true }
        return isClear
    }

    /// Handles items from the inbox until the turn is over, but at least one in a turn. Returns true if none are left.
    /// - Parameter all: handle all of them, however long it takes.
    @discardableResult
    func takeInbox(all: Bool = false) -> Bool {
        if !inbox.isEmpty { inbox.drain { inboxItems.append($0) } }
        guard !inboxItems.isEmpty else { return true }
        guard all || !inputs.hasTakenItem || !isTurnOver else { return false }
        inputs.hasTakenItem = true
        var taken = 0
        repeat {
            take(inboxItems[taken])
            taken += 1
        } while taken < inboxItems.count && (all || !isTurnOver)
        inboxItems.removeFirst(taken)
        return inboxItems.isEmpty
    }

    private func take(_ item: InboxItem) {
        switch item {
        case .messages(let messages): shard.receive(messages, now: now)
        case .accepted(let fd, let peer, let wireProtocol, let isSecure):
            adopt(fd, peer: peer, wireProtocol: wireProtocol, isSecure: isSecure)
        case .handedOver(let socket, let handover): arrivals.append((socket, handover))
        case .authenticated(let ticket, let outcome): shard.authenticated(ticket, outcome, now: now)
        case .login(let result): shard.count(result)
        case .access(let table): shard.reload(table, now: now)
        case .limits(let limits):
            context.limits = limits
            shard.adopt(limits, now: now)
        case .drain:
            if phase == .running { phase = .draining }
            shard.drain(now: now)
        case .stored(let outcomes): takeStored(outcomes)
        case .upstream(let reports, let size): takeUpstream(reports, size: size)
        case .upstreamStatus(let status): shard.upstream(status, now: now)
        case .history(let request, let answer): shard.answer(request, answer, now: now)
        case .found(let first, let search): shard.found(first, search, now: now)
        case .query(let job, let query): queries.append((job, query))
        case .ping: context.pulse.answer()
        case .stop: phase = .stopped
        }
    }

    private func adopt(_ fd: Int32, peer: String, wireProtocol: WireProtocol, isSecure: Bool) {
        // The engine may reuse the index of a connection that it has just closed.
        carryOut()
        guard phase != .stopped else {
            close(fd)
            return context.connections.remove()
        }
        let id: ConnectionID
        do throws(ConnectionRefusal) {
            id = try shard.admit(peer: peer, wireProtocol: wireProtocol, now: now)
        } catch {
            context.connections.remove()
            context.acceptor.push(
                .refuse(
                    RefusedConnection(fd: fd, peer: peer, wireProtocol: wireProtocol, isSecure: isSecure, cause: error))
            )
            return
        }
        connections.insert(
            id, fd: fd, kind: isSecure ? .handshaking(wireProtocol) : wireProtocol == .http ? .undecided : .framed)
        do throws(SystemError) {
            try poller.add(fd, token: Token.connection(id).rawValue, interest: .read)
        } catch {
            lose(id, error: error.code)
        }
    }
}
