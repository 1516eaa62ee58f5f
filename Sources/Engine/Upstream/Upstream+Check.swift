// Upstream+Check: whether JetStream works, and since when it does not.

import Core
import JetStream
import NATS

extension Upstream {
    /// Asks JetStream for its state if that is due.
    func checkJetStream(now: UInt64) {
        if check.isOverdue(now: now) {
            jetStreamFailed("NATS JetStream does not answer; check that most of its servers run.")
        }
        guard check.isDue(now: now) else { return }
        let request = JetStreamRequest.accountInfo
        let reply = "\(inbox).a.\(check.nextNumber())"
        let wasWritten = request.payload.withUnsafeBytes { try? link.publish(request.subject, reply: reply, nil, $0) }
        check.asked(now: now, wasWritten: wasWritten ?? false)
    }

    func answeredCheck(_ number: UInt64, _ answer: NATSMessage) {
        guard number == check.number else { return }
        do throws(JetStreamError) {
            try JetStreamAnswer.expectSuccess(answer)
        } catch {
            return jetStreamFailed(error.sentence)
        }
        check.succeeded(now: now)
        guard lostSince != nil else { return }
        lostSince = nil
        notes.connected(now: now)
        log.connected(to: link.server, version: link.info?.version ?? "")
    }

    /// A question has a bad answer, or none.
    func jetStreamFailed(_ cause: String) {
        guard check.isWaiting else { return }
        let since = check.failed(now: now)
        guard lostSince != nil || since != nil else { return }
        lost(cause, since: since ?? now)
    }

    /// JetStream is unreachable.
    func lost(_ cause: String, since: UInt64) {
        log.lost(cause, hasServer: link.isReady, isNew: lostSince == nil)
        notes.cause = cause
        if lostSince == nil { lostSince = since }
    }
}
