// Why a topic does not accept a message.

import ForebayWire

extension Topic {
    /// Why no message is accepted now, because of the store or because the end is on its way to JetStream.
    var outerRefusal: Refusal? {
        if isStored { return ownership.store.refusal(now: ownership.moment.monotonic) }
        return isEnding ? endingRefusal : nil
    }

    func reasonToRefuse(charge: Int) -> Refusal? {
        switch state {
        case .live: break
        case _ where !isOver:
            return Refusal(
                .store, "The topic '\(name)' is ending, and its store has not recorded the end yet; try again later.")
        case .completed: return SharedEnd.completed.refusal(of: name)
        case .failed(let reason): return SharedEnd.failed(reason).refusal(of: name)
        case .left(let refusal): return refusal
        }
        let limit = window.retention.bytes
        if charge > limit {
            return Refusal(
                .tooLarge,
                "The message takes \(charge) bytes of the topic's log, which holds \(limit); send a smaller one.")
        }
        return outerRefusal ?? ownership.relief.refusal(for: self)
    }
}
