// ShardLoop+Upstream: passes the engine's requests about shared topics to the upstream, and its reports to the engine.

import Core

extension ShardLoop {
    /// Submits the turn's requests together.
    func submitUpstream() {
        var requests: [UpstreamRequest] = []
        swap(&requests, &shard.effects.upstream)
        context.upstream?.submit(requests, from: index)
    }

    func takeUpstream(_ reports: [UpstreamReport], size: Int) {
        shard.upstream(reports, now: now)
        context.upstream?.processed(size)
    }
}
