// Refusals: why publishes and subscriptions of shared topics fail, as clients read it.

import Core
import JetStream
import NATS

extension Refusal {
    static let upstreamUnavailable = Refusal(
        .unavailable, "NATS JetStream cannot be reached; use another node of the cluster, or try again later.")

    static func unlisted(_ pattern: TopicPattern) -> Refusal {
        upstream(
            "NATS JetStream has not listed all shared topics that may match '\(pattern)'; use another node of the "
                + "cluster, or try again later.")
    }

    static let upstreamOutcomeUnknown = Refusal(
        .unavailable,
        "outcome unknown; NATS JetStream did not say whether it took the message. Publish it again if it may arrive "
            + "twice.")

    static func tooManySharedTopics(_ most: Int) -> Refusal {
        var refusal = Refusal(
            .limit, "This node uses \(most) shared topics, the maximum; use another node, or try again later.")
        refusal.limit = .sharedTopics
        return refusal
    }

    static func anotherEpoch(_ topic: String) -> Refusal {
        upstream("The topic '\(topic)' has begun again with another epoch; subscribe again.")
    }

    static func upstream(_ sentence: String) -> Refusal { Refusal(.unavailable, sentence) }
    static func upstream(_ error: NATSError) -> Refusal { Refusal(error.word, error.sentence) }
    static func upstream(_ error: JetStreamError) -> Refusal { Refusal(error.word, error.sentence) }
}
