// Upstream: a node whose NATS server answers anything. Requests are answered with what JetStream answers, with any
// numbers in it, or with any bytes; live messages come with any headers.

import Bytes
import Core
import NATS
import Replay
import Upstream

func fuzzUpstream(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let kind = input.number(below: 8)
    var script = UpstreamScript(kind % 2 == 1, answersChecks: kind % 4 < 2, isWatching: kind >= 4)
    var steps = 0
    while !input.isEmpty, steps < 200 {
        steps += 1
        script.step(&input)
    }
    script.end()
}

private struct UpstreamScript {
    /// A request of the node that has not been answered.
    private struct Request {
        var subject: String
        var reply: String
    }

    private static let topic = "t"
    private let upstream: Upstream
    private var now: UInt64 = 1_000_000_000_000
    private var isOpen = false
    private var requests: [Request] = []
    private var subscriptions: [(subject: String, id: String)] = []
    private var use: TopicUse?
    private var uses: UInt64 = 0
    private var tickets: UInt64 = 0
    /// The next message that the topic's owner expects; nil before it has joined.
    private var next: SequenceNumber?
    /// Publishes without an answer, and the end without one.
    private var waiting: Set<PublishTicket> = []
    private var ending: PublishTicket?

    /// Whether the node learns that JetStream works.
    private let answersChecks: Bool
    /// Whether there is a subscription to a pattern.
    private let isWatching: Bool

    init(_ isJoined: Bool, answersChecks: Bool, isWatching: Bool) {
        self.answersChecks = answersChecks
        self.isWatching = isWatching
        var connection = NATSOptions(name: "n", version: "v")
        connection.limits.maxPending = 16_000
        guard let servers = try? NATSServers(parsing: "nats://a") else { fatalError("the URL is valid") }
        upstream = Upstream(UpstreamOptions(servers: servers, connection: connection), shards: 1, seed: 1, now: now)
        if isWatching, let pattern = try? TopicPattern(parsing: ">") {
            upstream.handle([.search(1, pattern, wantsNames: isJoined)], from: 0, now: now)
        }
        if isJoined { join() }
        exchange()
    }

    mutating func step(_ input: inout FuzzInput) {
        switch input.number(below: 16) {
        case 0...5: answer(&input)
        case 6: reply(to: requests.isEmpty ? nil : requests.removeFirst(), headers: "", input.piece().asText)
        case 7...9: sendLive(&input)
        case 10: publish(isNumbered: false, &input)
        case 11: publish(isNumbered: true, &input)
        case 12:
            now += UInt64(input.byte()) * 100_000_000
            upstream.tick(now: now)
        case 13: request(end: input.pick([.completed, .failed("why"), .deleted]))
        case 14:
            if use == nil { join() } else { leave() }
        default:
            isOpen = false
            requests = []
            upstream.closed("It was closed.", now: now)
        }
        exchange()
    }

    /// After a minute without answers, nothing waits any longer.
    mutating func end() {
        requests = []
        for _ in 0..<70 {
            now += 1_000_000_000
            upstream.tick(now: now)
            exchange()
        }
        mustHold(waiting.isEmpty && ending == nil, "\(waiting.count) publishes, or an end, have no answer")
    }

    // The shard

    private mutating func join() {
        uses += 1
        let use = TopicUse(topic: UpstreamScript.topic, number: uses)
        self.use = use
        next = nil
        upstream.handle([.join(use, Retention(messages: 10, bytes: 1 << 20, age: 0))], from: 0, now: now)
    }

    private mutating func leave() {
        guard let use else { return }
        upstream.handle([.leave(use, at: next)], from: 0, now: now)
        self.use = nil
        (waiting, ending) = ([], nil)
    }

    private mutating func publish(isNumbered: Bool, _ input: inout FuzzInput) {
        guard let use else { return }
        tickets += 1
        let ticket = PublishTicket(tickets)
        waiting.insert(ticket)
        let number = UInt64(1 + input.number(below: 4))
        let payload = input.take(4)
        let publish =
            isNumbered
            ? SharedPublish(
                use: use, ticket: ticket, chain: nil, publisher: [1], number: number, metadata: nil, payload: payload)
            : SharedPublish(use: use, ticket: ticket, chain: PublishTicket(1), metadata: nil, payload: payload)
        upstream.handle([.publish(publish)], from: 0, now: now)
    }

    private mutating func request(end: SharedEnd) {
        guard let use else { return }
        // One at a time, as a shard does.
        guard ending == nil else { return }
        tickets += 1
        ending = PublishTicket(tickets)
        upstream.handle([.end(use, PublishTicket(tickets), end)], from: 0, now: now)
    }

    private mutating func take(_ report: UpstreamReport) {
        switch report {
        case .joined(let other, _, let first):
            guard other == use else { return }
            mustHold(next == nil, "the topic is joined twice")
            next = first
        case .messages(let other, let batch):
            guard other == use, var next else { return mustHold(other != use, "messages before the topic is joined") }
            batch.forEach(lost: { next = Swift.max(next, $0) }) { item, _, _ in
                mustHold(item.sequence >= next, "\(item.sequence) follows \(next)")
                next = item.sequence.advanced(by: 1)
                if let ticket = item.ticket { waiting.remove(ticket) }
            }
            self.next = next
        case .refused(_, let ticket, _), .duplicate(_, let ticket, _), .found(_, let ticket, _):
            waiting.remove(ticket)
            if ending == ticket { ending = nil }
        case .ended(let other, .deleted, _), .left(let other, _): if other == use { use = nil }
        case .ended(let other, _, _): if other == use { ending = nil }
        case .absent, .current: break
        case .followed, .heard, .matched, .unlisted: mustHold(isWatching, "there is no subscription to a pattern")
        }
        if use == nil { (waiting, ending) = ([], nil) }
    }

    // The server

    private mutating func exchange() {
        for _ in 0..<20 {
            let actions = upstream.takeActions()
            for action in actions {
                switch action {
                case .connect: open()
                case .close, .startTLS: isOpen = false
                }
            }
            let written = upstream.pending.asText
            upstream.sent(upstream.pending.count, now: now)
            if isOpen { read(written) }
            if actions.isEmpty, written.isEmpty { break }
        }
        upstream.takeReports { reports, _ in for report in reports { take(report) } }
        mustHold(upstream.status.topics <= 1, "there are more topics than are used")
        _ = upstream.takeLog()
    }

    private mutating func open() {
        isOpen = true
        (requests, subscriptions) = ([], [])
        upstream.opened(now: now)
        receive("INFO {\"version\":\"2.15.1\",\"headers\":true,\"max_payload\":1048576}\r\n")
    }

    private mutating func read(_ text: String) {
        for line in text.split(separator: "\r\n") {
            let words = line.split(separator: " ").map(String.init)
            switch words.first {
            case "PING": receive("PONG\r\n")
            case "SUB" where words.count >= 3: subscriptions.append((words[1], words[words.count - 1]))
            case "PUB" where words.count == 4, "HPUB" where words.count == 5:
                if words[1] == "$JS.API.INFO", answersChecks {
                    reply(to: Request(subject: words[1], reply: words[2]), headers: "", "{}")
                } else {
                    requests.append(Request(subject: words[1], reply: words[2]))
                }
            default: break
            }
        }
    }

    private func receive(_ text: String) {
        guard isOpen else { return }
        withBytes(text) { bytes in withCopy(bytes) { upstream.received($0, now: now) } }
    }

    private func deliver(_ subject: String, _ id: String, headers: String, _ payload: String) {
        let (head, size) = (headers.utf8.count, headers.utf8.count + payload.utf8.count)
        let line = head == 0 ? "MSG \(subject) \(id) \(size)" : "HMSG \(subject) \(id) \(head) \(size)"
        receive("\(line)\r\n\(headers)\(payload)\r\n")
    }

    private func reply(to request: Request?, headers: String, _ payload: String) {
        guard let request, let inbox = subscriptions.first(where: { $0.subject.hasPrefix("_INBOX") }) else { return }
        deliver(request.reply, inbox.id, headers: headers, payload)
    }

    /// What JetStream answers to one of the oldest requests, with numbers of the input.
    private mutating func answer(_ input: inout FuzzInput) {
        guard !requests.isEmpty else { return }
        let request = requests.remove(at: input.number(below: Swift.min(4, requests.count)))
        let call = request.subject
        guard input.number(below: 6) > 0 else {
            let code = input.pick([10059, 10037, 10065, 10071, 10060, 10109, 10008, 10074, 10077])
            return reply(to: request, headers: "", "{\"error\":{\"code\":400,\"err_code\":\(code)}}")
        }
        if call.hasPrefix("$JS.API.DIRECT") {
            // The request stays, because each message is an answer of its own.
            let isLast = input.number(below: 3) == 0
            if !isLast { requests.insert(request, at: 0) }
            let status = "NATS/1.0 \(input.pick(["204 EOB", "404 Not Found", "408 Bad Request"]))\r\n\r\n"
            reply(to: request, headers: isLast ? status : headers(&input), "m")
        } else {
            reply(to: request, headers: "", body(of: call, &input))
        }
    }

    private func body(of call: String, _ input: inout FuzzInput) -> String {
        switch call.split(separator: ".").dropFirst(2).prefix(2).joined(separator: ".") {
        case "STREAM.NAMES":
            let names = (0..<input.number(below: 3)).map { "\"FB_\($0 + 1)\"" }
            return "{\"total\":\(names.count),\"streams\":[\(names.joined(separator: ","))]}"
        case "STREAM.LIST":
            let streams = (0..<input.number(below: 3)).map { number in
                let last = input.number(below: 20)
                return
                    "{\"config\":{\"name\":\"FB_\(1 + input.number(below: 3))\",\"subjects\":[\"fb.p.*.t\(number)\"],"
                    + "\"metadata\":{\"forebay-topic\":\"t\(number)\"}},\"state\":{\"messages\":\(last),"
                    + "\"first_seq\":1,\"last_seq\":\(last)}}"
            }
            return "{\"total\":\(input.number(below: 5)),\"streams\":[\(streams.joined(separator: ","))]}"
        case "STREAM.MSG":
            let block = withBytes(headers(&input)) { Base64.encode($0) }
            let second = String(100 + input.number(below: 60)).dropFirst()
            return
                "{\"message\":{\"subject\":\"fb.p.-.t\",\"seq\":\(1 + input.number(below: 20)),\"hdrs\":\"\(block)\","
                + "\"data\":\"bQ==\",\"time\":\"2026-01-01T00:00:\(second)Z\"}}"
        case "STREAM.CREATE", "STREAM.INFO", "STREAM.UPDATE":
            let (count, last) = (input.number(below: 20), input.number(below: 20))
            let subjects = input.number(below: 8) == 0 ? "" : "\"fb.p.*.t\""
            let recorded =
                "{\"forebay-end\":\"completed\",\"forebay-end-sequence\":\"\(last)\",\"forebay-end-id\":\"x\"}"
            let end = input.number(below: 4) > 0 ? "" : ",\"metadata\":\(recorded)"
            return "{\"config\":{\"name\":\"FB_1\",\"subjects\":[\(subjects)]\(end)},\"state\":{\"messages\":\(count),"
                + "\"first_seq\":\(Swift.max(1, last - count)),\"last_seq\":\(last)}}"
        case "STREAM.DELETE": return "{\"success\":true}"
        default: return "{\"stream\":\"FB_1\",\"seq\":\(1 + input.number(below: 20))}"
        }
    }

    /// The headers of a message of a stream.
    private func headers(_ input: inout FuzzInput) -> String {
        let form = input.pick(
            [
                "Forebay: 1", "Forebay: 1", "Forebay: 1", "Forebay-Control: completed", "Forebay-Control: deleted",
                "X: y",
            ])
        let second = String(100 + input.number(below: 60)).dropFirst()
        return "NATS/1.0\r\n\(form)\r\nNats-Msg-Id: x.\(input.byte())\r\nForebay-Number: \(input.number(below: 4))\r\n"
            + "Nats-Stream: FB_1\r\nNats-Subject: fb.p.-.t\r\nNats-Sequence: \(1 + input.number(below: 20))\r\n"
            + "Nats-Time-Stamp: 2026-01-01T00:00:\(second)Z\r\n\r\n"
    }

    private func sendLive(_ input: inout FuzzInput) {
        let all = isWatching ? subscriptions.last { $0.subject == "fb.l.>" } : nil
        guard let live = all ?? subscriptions.last(where: { $0.subject == "fb.l.t" }) else { return }
        let isValid = input.number(below: 4) > 0
        deliver("fb.l.t", live.id, headers: isValid ? headers(&input) : input.piece().asText, "m")
    }
}
