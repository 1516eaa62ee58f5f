// PeerState: what the connections of a shard share for speaking their protocols – the answers of plain HTTP, and memory
// that messages and frames are put together in.

import Bytes
import HTTP2
import RSocket

final class PeerState: ShardPart {
    private(set) var plainProtocol: PlainProtocol
    var answerHeads = AnswerHeads()
    /// The number of the latest login that the driver was asked to look at.
    var lastTicket: UInt64 = 0
    /// Where recent single publishes went.
    var publishTargets = PublishTargets()
    /// For frames that are put together before they are queued.
    var scratch = ByteBuffer(minimumCapacity: 512)
    var carriedMetadata = ByteBuffer()
    /// The message of a gRPC call at work; kept for its array of headers.
    var published = PublishedMessage()

    override init(_ context: ShardContext) {
        plainProtocol = PeerState.plainProtocol(context.limits)
        super.init(context)
    }

    func adopt(_ limits: Limits) { plainProtocol = PeerState.plainProtocol(limits) }

    private static func plainProtocol(_ limits: Limits) -> PlainProtocol {
        PlainProtocol(limits: limits.ofPlain, cors: limits.http.cors, hosts: limits.http.hosts)
    }

    /// Where a single publish over HTTP goes, whose topic may be published to.
    func target(named name: String, of connection: Connection) -> PublishTarget {
        let target = self.target(named: name)
        if !connection.login.allowedTargets.contains(target) { connection.login.allowedTargets.insert(target) }
        return target
    }

    /// By the name of a topic, which as a route names itself.
    private func target(named name: String) -> PublishTarget {
        var route = name
        return route.withUTF8 { bytes in
            guard let tags = try? RouteTags(UnsafeRawBufferPointer(bytes), form: .plain) else {
                return PublishTarget(name: name, owner: owner(of: name))
            }
            if let known = publishTargets.find(tags) { return known }
            let target = PublishTarget(name: name, owner: owner(of: name))
            publishTargets.insert(target, for: tags)
            return target
        }
    }
}
