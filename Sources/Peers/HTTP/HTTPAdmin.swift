// HTTPAdmin: gRPC's services other than PubSub: forebay.v1.Admin, with the requests of RSocket's control calls, and
// reflection.

import Bytes
import ForebayWire
import HTTP2
import Replay

final class HTTPAdmin: ShardPart {
    let httpResponses: HTTPResponses
    let listRequests: ListRequests
    let calls: ControlRequests
    let httpCalls: HTTPCalls

    init(
        _ context: ShardContext, _ httpResponses: HTTPResponses, _ listRequests: ListRequests, _ calls: ControlRequests,
        _ httpCalls: HTTPCalls
    ) {
        self.httpResponses = httpResponses
        self.listRequests = listRequests
        self.calls = calls
        self.httpCalls = httpCalls
        super.init(context)
    }

    // Admin

    func administer(_ message: UnsafeRawBufferPointer, for exchange: Exchange, now: Instant) throws(GRPCError) {
        guard let method = exchange.method else { return }
        let request = try AdminRequest.parse(message, of: method)
        do throws(Refusal) {
            switch request {
            case .call(let request): try call(ControlRequest(request), for: exchange, now: now)
            case .list(let list): try self.list(list, for: exchange, now: now)
            }
        } catch {
            httpResponses.finish(exchange, error)
        }
    }

    private func call(_ request: ControlRequest?, for exchange: Exchange, now: Instant) throws(Refusal) {
        try calls.call(exchange.connection, stream: exchange.stream, request, now: now)
    }

    /// Credit is unbounded: the peer's windows and the output limit the rate of rows.
    private func list(_ list: BrokerList, for exchange: Exchange, now: Instant) throws(Refusal) {
        try listRequests.openList(
            exchange.connection, stream: exchange.stream, initialN: ListStream.unbounded, list, now: now)
        httpResponses.begin(exchange)
    }

    // Reflection. A response is many times larger than its request, so the next request waits until the response has
    // moved to the output, and so does the part of the peer's window that the request took.

    func takeReflection(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        guard !exchange.isFinished else { return http.consume(exchange.stream, bytes.count) }
        guard exchange.request.wait == nil else { return holdBack(bytes, for: exchange, http, now: now) }
        let rest = answerRequests(in: bytes, for: exchange, http, now: now)
        if !rest.isEmpty { holdBack(rest, for: exchange, http, now: now) }
    }

    /// Responds, after a write, to requests that may continue.
    func answerHeldBack(_ http: HTTPConnection, now: Instant) {
        guard !http.reflections.waiting.isEmpty else { return }
        for exchange in http.reflections.takeWaiting() where !exchange.isFinished {
            var backlog = exchange.request.takeBacklog()
            let rest = answerRequests(in: backlog.readable, for: exchange, http, now: now)
            guard !exchange.isFinished else { continue }
            let count = backlog.count - rest.count
            backlog.consume(count)
            exchange.request.putBack(backlog)
            http.count(exchange)
            if exchange.request.wait != nil {
                http.reflections.hold(exchange)
            } else if exchange.request.isHalfClosed {
                httpCalls.halfClosed(exchange, now: now)
            }
        }
    }

    private func holdBack(
        _ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant
    ) {
        if exchange.request.wait == nil {
            exchange.request.wait(on: .answer)
            http.reflections.hold(exchange)
        }
        httpCalls.keep(bytes, of: exchange, http, now: now)
    }

    /// Responds to as many requests as possible. Returns the bytes that have to wait.
    private func answerRequests(
        in bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant
    ) -> UnsafeRawBufferPointer {
        var rest = bytes
        do throws(GRPCError) {
            while exchange.body.isEmpty, !exchange.isFinished,
                let message = try exchange.request.deframer.next(&rest)
            {
                try httpCalls.receive(message, for: exchange, now: now)
            }
            try httpCalls.checkHeld(exchange, http)
        } catch {
            httpCalls.refuse(exchange, error, now: now)
        }
        if exchange.isFinished { rest = UnsafeRawBufferPointer(start: nil, count: 0) }
        http.consume(exchange.stream, bytes.count - rest.count)
        return rest
    }

    func reflect(_ request: UnsafeRawBufferPointer, for exchange: Exchange) throws(GRPCError) {
        guard let http = exchange.connection.http else { return }
        if exchange.role != .reflection {
            guard http.reflections.count < limits.listsPerConnection else {
                throw GRPCError(
                    .resourceExhausted, word: .limit,
                    "The connection has \(limits.listsPerConnection) reflection calls open, the maximum; "
                        + "end one.")
            }
            http.reflections.open(exchange)
        }
        var answer = ByteBuffer()
        try Reflection.answer(request, to: &answer)
        httpResponses.sendMessage(exchange) { $0.append(answer.readable) }
    }
}

extension Description {
    /// Appends the description as a gRPC message.
    func append(to out: inout ByteBuffer) {
        switch self {
        case .broker(let broker): broker.append(to: &out)
        case .topic(let topic): topic.append(to: &out)
        case .subscription(let subscription): subscription.append(to: &out)
        case .connection(let connection): connection.append(to: &out)
        }
    }
}
