// The cost of writing a message, counted and not timed: no allocation, whatever the payload.

import Bytes
import CAllocations
import Testing

@testable import HTTP2

/// Whether allocations are counted. Unoptimized code allocates in each loop, and a sanitizer brings its own allocator.
private var isCounted: Bool {
    #if DEBUG
        false
    #else
        allocation_counted()
    #endif
}

@Suite(.serialized, .enabled(if: isCounted, "only an optimized build without a sanitizer can be counted"))
struct StreamAllocationTests {
    @Test(arguments: StreamFormat.allCases)
    func recordsAllocateNothing(format: StreamFormat) {
        let payloads = ["{\"a\":\"é\u{1}\"}\nb", "a\r\n", String(repeating: "x", count: 5000)].map { Array($0.utf8) }
        let metadata = written {
            PublishCall(topic: "t", contentType: "x/y", headers: [PlainHeader("a", "b"), PlainHeader("c", "\"")])
                .appendMetadata(into: &$0)
        }
        var out = ByteBuffer(minimumCapacity: 64 << 10)
        let before = allocation_count()
        for _ in 0..<100 {
            for payload in payloads {
                payload.withUnsafeBytes { payload in
                    metadata.withUnsafeBytes { metadata in
                        let message = StreamedMessage(
                            epoch: 7, sequence: 8, timestamp: 9, dropped: 1, metadata: metadata, payload: payload)
                        StreamRecord(message, as: format).append(into: &out)
                    }
                }
            }
            out.removeAll()
        }
        #expect(allocation_count() - before == 0)
    }
}
