// TopicFeed+Loss: what happens if JetStream has lost messages that it had acknowledged. The stream is taken off the
// topic's subjects, and the topic begins again with another stream and epoch; the old messages are not replayed.

import Core
import JetStream
import Replay

extension TopicFeed {
    /// JetStream may have lost messages.
    func suspectLoss(now: UInt64) {
        loss.suspect()
        if isLive { inspect(now: now) }
    }

    /// Whether the stream has to be checked before its messages are read.
    func mustVerify(_ stream: StreamInfo, now: UInt64) -> Bool {
        guard let next, let name = self.stream else { return false }
        if stream.lastSequence + 1 < next.value {
            // A new message shows whether its sequences are used again.
            state = .verifying(stream)
            if !upstream.probe(self, name, now: now) { callFailed(now: now) }
            return true
        }
        guard let question = loss.question else { return false }
        state = .verifying(stream)
        call(.message(question.value, name), .verify, now: now)
        return true
    }

    /// The sequence of a control message that was just published.
    func probed(at sequence: SequenceNumber, now: UInt64) {
        guard case .verifying(let stream) = state, let next else { return }
        if sequence < next { retire(stream, now: now) } else { inspect(now: now) }
    }

    /// The leader's message at a sequence that was reported.
    func verified(_ message: JetStream.StoredMessage?, now: UInt64) {
        guard case .verifying(let stream) = state else { return }
        if loss.answered(message) { retire(stream, now: now) } else { inspect(now: now) }
    }

    private func retire(_ stream: StreamInfo, now: UInt64) {
        upstream.log.lost(topic)
        // At least the message that was replaced.
        let seen = next?.value ?? 0
        upstream.notes.counts.lost += Swift.max(1, seen - Swift.min(seen, stream.lastSequence + 1))
        call(.retire(stream, metadata: ["forebay-retired": "messages lost"]), .retire, now: now)
    }

    /// The stream is taken off the topic's subjects.
    func retired(now: UInt64) { leave(.anotherEpoch(topic)) }
}
