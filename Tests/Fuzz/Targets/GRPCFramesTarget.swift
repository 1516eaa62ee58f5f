// gRPC's framing: however the bytes are split, the same messages result, and no more than one message is held.

import Bytes

@testable import HTTP2

func fuzzGRPCFrames(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let limit = 1 + input.number(below: 200)
    let step = 1 + input.number(below: 50)
    let whole = deframe(input.rest, limit, input.rest.count)
    let cut = deframe(input.rest, limit, step)
    mustHold(whole.messages == cut.messages, "pieces give other messages")
    let (one, other) = (whole.error ?? "nothing", cut.error ?? "nothing")
    mustHold(one == other, "pieces end with \(other), the whole with \(one)")
    mustHold(!whole.messages.contains { $0.count > limit }, "a message is above the limit")
}

private func deframe(
    _ bytes: UnsafeRawBufferPointer, _ limit: Int, _ step: Int
) -> (messages: [[UInt8]], error: String?) {
    var deframer = GRPCDeframer(limit: limit)
    var messages: [[UInt8]] = []
    var input = FuzzInput(bytes)
    do throws(GRPCError) {
        while !input.isEmpty {
            let error = withCopy(input.take(step)) { bytes -> GRPCError? in
                var rest = bytes
                do throws(GRPCError) {
                    while let message = try deframer.next(&rest) { messages.append(Array(message)) }
                    return nil
                } catch {
                    return error
                }
            }
            if let error { throw error }
            let held = deframer.heldBytes
            mustHold(held <= limit + 5, "\(held) bytes are held")
        }
        let count = deframer.count
        mustHold(count == UInt64(messages.count), "another count")
        try deframer.finish()
        return (messages, nil)
    } catch {
        return (messages, "\(error.status)")
    }
}
