// OnlyMessage: calls of gRPC whose client sends one message. Such a call is acted upon when its message is complete and
// the client has half-closed without sending more: where a call is refused for what it sent, nothing has been done.
//
//     message ──with the end, as most clients send it──▶ acted upon
//        └──alone──▶ kept ──the end──▶ acted upon
//                      └──more, or no end in time──▶ refused

import Bytes
import HTTP2

extension HTTPCalls {
    /// Takes what came of such a call's message.
    func takeOnly(
        _ rest: inout UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant
    ) throws(GRPCError) {
        if !exchange.hasMessage {
            guard let message = try exchange.request.deframer.next(&rest) else { return }
            if rest.isEmpty {
                // It is dealt with where it lies.
                if http.hasEnded(exchange) { return try receive(message, for: exchange, now: now) }
                exchange.request.wait(on: .end)
                exchange.request.keep(message)
                // Which lets go of what the message was put together in.
                return try exchange.request.deframer.finish()
            }
        }
        guard rest.isEmpty else {
            let path = exchange.method?.path ?? ""
            throw GRPCError(.invalidArgument, "\(path) takes one message, and more came behind it.")
        }
    }

    /// The end has come behind a message that was kept.
    func receiveOnly(for exchange: Exchange, now: Instant) throws(GRPCError) {
        let message = exchange.request.takeBacklog()
        exchange.connection.http?.count(exchange)
        try receive(message.readable, for: exchange, now: now)
    }
}
