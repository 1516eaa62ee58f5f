// FeedState: what a topic's feed does; TopicFeed has the diagram.

import JetStream
import Replay

extension TopicFeed {
    var isLive: Bool { if case .live = state { true } else { false } }
    /// Whether there was no such topic when it was looked for last.
    var isAbsent: Bool { if case .absent = state { true } else { false } }
    /// Whether the stream is known, so that messages can be published to it.
    var mayPublish: Bool { state.hasStream && end == nil }

    enum State {
        case waiting
        /// The server confirms the subscription with this flush.
        case subscribing(flush: UInt64)
        case finding
        case absent
        case creating
        /// Other nodes may create the stream, too.
        case awaitingOthers
        case inspecting
        /// Whether the stream has lost messages.
        case verifying(StreamInfo)
        /// Messages before `end` are read.
        case reading(end: SequenceNumber)
        /// `from`: the next message that the stream has, according to the server that was asked.
        case asking(from: SequenceNumber, end: SequenceNumber)
        case live
        /// The stream is sealed or deleted, because a control message has ended the topic.
        case recording
        case ended

        /// Whether the stream is known.
        var hasStream: Bool {
            switch self {
            case .reading, .asking, .live, .recording, .ended: true
            case .waiting, .subscribing, .finding, .absent, .creating, .awaitingOthers, .inspecting, .verifying: false
            }
        }
    }
}
