// PeerState: what the connections of a shard share for speaking their protocols – the answers of plain HTTP, and memory
// that messages and frames are put together in.

import Bytes
import HTTP2

final class PeerState {
    private(set) var plainFace: PlainFace
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

    init(_ limits: Limits) { plainFace = PeerState.face(limits) }

    func adopt(_ limits: Limits) { plainFace = PeerState.face(limits) }

    private static func face(_ limits: Limits) -> PlainFace {
        PlainFace(limits: limits.ofPlain, cors: limits.http.cors, hosts: limits.http.hosts)
    }
}
