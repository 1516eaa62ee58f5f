// OnlyMessage: gRPC calls whose client sends one message. Such a call is executed once its message is complete and the
// client has half-closed the stream without sending more. So a call that is refused because of its content has had no
// effect.
//
//     message ──with the end, as most clients send it──▶ executed
//        └──without──▶ kept ──the end──▶ executed
//                      └──more, or no end in time──▶ refused

import Bytes
import HTTP2

extension HTTPCalls {
    /// Processes bytes of such a call's message.
    func takeOnly(
        _ rest: inout UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant
    ) throws(GRPCError) {
        if !exchange.hasMessage {
            guard let message = try exchange.request.deframer.next(&rest) else { return }
            if rest.isEmpty {
                // The message is processed in place.
                if http.hasEnded(exchange) { return try receive(message, for: exchange, now: now) }
                exchange.request.wait(on: .end)
                exchange.request.keep(message)
                // This frees the buffer in which the message was assembled.
                return try exchange.request.deframer.finish()
            }
        }
        guard rest.isEmpty else {
            let path = exchange.method?.path ?? ""
            throw GRPCError(.invalidArgument, "\(path) takes one message, but more were sent.")
        }
    }

    /// Executes a call whose end arrived after its message, which was kept.
    func receiveOnly(for exchange: Exchange, now: Instant) throws(GRPCError) {
        let message = exchange.request.takeBacklog()
        exchange.connection.http?.count(exchange)
        try receive(message.readable, for: exchange, now: now)
    }
}
