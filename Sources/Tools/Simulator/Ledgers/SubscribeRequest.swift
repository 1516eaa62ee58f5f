// SubscribeRequest: the options of a subscription, and its route.

import Core
import ForebayWire

struct SubscribeRequest {
    enum Start { case next, all, last(UInt64), from(UInt64, epoch: UInt64?), since(StartTime) }

    /// A topic's name, or a pattern.
    var topic: String
    var isPattern = false
    var policy = "drop-oldest"
    var buffer = 1024
    var start = Start.next
    var hasMeta = true
    var gapFails = false
    var isCumulative = false

    var route: String {
        var route = "\(topic)?overflow=\(policy)&buffer=\(buffer)&meta=\(hasMeta ? "on" : "off")"
        switch start {
        case .next: break
        case .all: route += "&replay=all"
        case .last(let count): route += "&replay=\(count)"
        case .from(let sequence, let epoch):
            route += "&from=\(sequence)"
            if let epoch { route += "&epoch=\(epoch)" }
        case .since(let time): route += "&since=\(time)"
        }
        if gapFails { route += "&gap=fail" }
        if isCumulative { route += "&demand=cumulative" }
        return route
    }
}
