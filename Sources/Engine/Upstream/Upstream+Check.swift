// Upstream+Check: whether JetStream works, and since when it does not.

import Core
import JetStream
import NATS

extension Upstream {
    /// Asks JetStream for its state if that is due.
    func checkJetStream(now: UInt64) {
        if check.isOverdue(now: now) {
            jetStreamFailed(
                check.objection
                    ?? "NATS JetStream does not answer; check that most of its servers run and that this node's user "
                    + "may publish to $JS.API.INFO.", now: now)
        }
        guard check.isDue(now: now), link.isReady else { return }
        check.asked(now: now)
        let request = JetStreamRequest.accountInfo
        _ = request.payload.withUnsafeBytes {
            try? link.publish(request.subject, reply: "\(inbox).a.\(check.number)", nil, $0)
        }
    }

    func answeredCheck(_ number: UInt64, _ answer: NATSMessage) {
        guard number == check.number else { return }
        do throws(JetStreamError) {
            try JetStreamAnswer.expectSuccess(answer)
        } catch {
            return jetStreamFailed(error.sentence, now: now)
        }
        check.succeeded(now: now)
        guard lostSince != nil else { return }
        lostSince = nil
        notes.connected(now: now)
        log.connected(to: link.server, version: link.info?.version ?? "")
    }

    private func jetStreamFailed(_ cause: String, now: UInt64) {
        let since = check.failed(now: now)
        guard lostSince != nil || since != nil else { return }
        lost(cause, since: since ?? now)
    }

    /// JetStream is unreachable.
    func lost(_ cause: String, since: UInt64) {
        log.lost(cause, isNew: lostSince == nil)
        notes.cause = cause
        if lostSince == nil { lostSince = since }
    }
}
