// Mailroom: what other shards send.

final class Mailroom: ShardPart {//@
    /// Messages from other shards, in the order each of them sent its own.
    public func receive(_ mail: [Mail], now: Instant) {
        moment = now
        for message in mail {
            work.spent += Work.mail
            open(message.content, now: now)
        }
        settle(now)
    }

    private func open(_ content: Mail.Content, now: Instant) {
        switch content {
        case .attach(let name, let shard, let account, let connection):
            tellProcessed(MessageBatch.envelope, shard, connection)
            attach(name, from: shard, account, now: now)
        case .detach(let epoch, let shard, let past): unlink(epoch, shard, past, now: now)

        case .attached(let name, let view): attached(name, view, now: now)
        case .attachRefused(let name, let refusal): attachRefused(name, refusal)
        case .advance(let epoch, let advance): views[epoch: epoch]?.advance(advance, now: now)

        case .publish(let key, let request):
            tellProcessed(request.message.weight, key.shard, request.connection)
            open(key, request, now: now)
        case .items(let key, let connection, let batch):
            tellProcessed(batch.weight, key.shard, connection)
            take(batch, from: key, now: now)
        case .frames(let key, let connection, let batch):
            tellProcessed(batch.weight, key.shard, connection)
            take(batch, from: key, now: now)
        case .publisherEnded(let key, let name, let end):
            guard let channel = remoteChannels[key] else {
                topics[name]?.withdraw(key, now: now)
                return
            }
            channel.topic.ended(channel, end, now: now)
            // A complete channel whose first message is parked lives on until that is appended.
            if channel.topic.channels[key] == nil { remoteChannels[key] = nil }
        case .fire(let name, let connection, let shard, let batch, let account):
            tellProcessed(batch.weight, shard, connection)
            takeFire(batch, name: name, account, now: now)

        case .notice(let key, let notice): hear(notice, key.handle)
        case .processed(let id, let bytes):
            let connection = find(id)
            forwarding.processed(bytes, of: connection)
            if let connection { resume(connection, now: now) }

        case .call(let key, let connection, let call):
            tellProcessed(ControlRequest.weight, key.shard, connection)
            answer(key, perform(call, now: now))
        case .answer(let key, let result): answer(key, result)
        case .credit(let key, let id, let n, let user): answer(key, give(n, to: id, of: user, now: now))
        case .listPage(let page, let shard):
            let (rows, next) = rows(of: page.list, after: page.after, for: page.principal, now: now)
            send(.listRows(rows, next: next), to: shard)
        case .listRows(let rows, let next): listed(rows, next, now: now)

        case .report(let report, let shard): take(report, from: shard, now: now)
        case .reportHeard(let shard): reportHeard(by: shard)
        case .stats(let shard, let counters): statistics.take(counters, from: shard)
        }
    }

    /// Bytes on their way to another shard: past a limit the connection is read no more until they are dealt with.
    func forward(_ bytes: Int, of connection: Connection) {
        forwarding.sent(bytes, of: connection)
        updateReading(connection)
    }

    /// What a connection of another shard sent was dealt with.
    func tellProcessed(_ weight: Int, _ shard: Int, _ connection: ConnectionID) {
        send(.processed(connection, bytes: weight), to: shard)
    }
}
