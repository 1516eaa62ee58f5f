// PeerState: state that the connections of a shard share for their protocols: plain HTTP's responses, and buffers in
// which messages and frames are built.

import Bytes
import HTTP2
import RSocket

final class PeerState: ShardPart {
    private(set) var plainProtocol: PlainProtocol
    var answerHeads = AnswerHeads()
    /// The number of the latest login handed to the driver.
    var lastTicket: UInt64 = 0
    /// The targets of recent single publishes.
    var publishTargets = PublishTargets()
    /// For frames that are built before they are queued.
    var scratch = ByteBuffer(minimumCapacity: 512)
    var carriedMetadata = ByteBuffer()
    /// The message of the current gRPC call; kept for its array of headers.
    var published = PublishedMessage()

    override init(_ context: ShardContext) {
        plainProtocol = PeerState.plainProtocol(context.limits)
        super.init(context)
    }

    func adopt(_ limits: Limits) { plainProtocol = PeerState.plainProtocol(limits) }

    private static func plainProtocol(_ limits: Limits) -> PlainProtocol {
        PlainProtocol(limits: limits.ofPlain, cors: limits.http.cors, hosts: limits.http.hosts)
    }

    /// The target of a single publish over HTTP, to a topic that the client may publish to.
    func target(named name: String, of connection: Connection) -> PublishTarget {
        let target = self.target(named: name)
        if !connection.login.allowedTargets.contains(target) { connection.login.allowedTargets.insert(target) }
        return target
    }

    /// Looks up a topic by its name, which is also its route.
    func target(named name: String) -> PublishTarget {
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
