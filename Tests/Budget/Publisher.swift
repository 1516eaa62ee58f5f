// Publisher: a connection whose input is prepared in advance, so the work of preparing it is not counted.

import Bytes
import Core
import RSocket

final class Publisher {
    let peer: Peer
    /// The number of messages that the broker has read completely.
    private(set) var published = 0
    private let scenario: Scenario
    private let reads: Int

    // A channel's items, all alike; a read may begin in the middle of an item.
    private var items = Run.nothing
    private var frame = 1
    private var quantum = 0
    private var begun = 0

    /// Single publishes, read by read, each on a separate stream.
    private var requests: [UnsafeRawBufferPointer] = []
    private var next = 0
    private var perRead = 0

    /// - Parameter reads: the number of reads that the publisher will send.
    init(_ peer: Peer, _ scenario: Scenario, reads: Int) {
        self.peer = peer
        self.scenario = scenario
        self.reads = reads
    }

    func prepareItems() {
        let payload = Run.payload(scenario)
        frame = FrameWriter.payloadSize(metadata: nil, data: payload.count, fragment: 0)
        switch scenario.source {
        case .channels(.messages(let count)): quantum = count * frame
        case .channels(.quantum): quantum = Limits.readQuantum
        case .acknowledged, .fired, .posted, .keepalives: return
        }
        let count = quantum / frame + 2
        items = Run.lasting { out in
            payload.withUnsafeBytes {
                for _ in 0..<count {
                    FrameWriter.payload(
                        stream: 1, next: true, complete: false, metadata: nil, data: $0, fragment: 0, into: &out)
                }
            }
        }
    }

    func prepareRequests(_ route: UnsafeRawBufferPointer, count: Int, isAnswered: Bool) {
        let payload = Run.payload(scenario)
        perRead = count
        var stream: UInt32 = 1
        for _ in 0..<reads {
            requests.append(
                Run.lasting { out in
                    payload.withUnsafeBytes {
                        for _ in 0..<count {
                            if isAnswered {
                                FrameWriter.requestResponse(
                                    stream: stream, metadata: route, data: $0, fragment: 0, into: &out)
                            } else {
                                FrameWriter.requestFNF(
                                    stream: stream, metadata: route, data: $0, fragment: 0, into: &out)
                            }
                            stream += 2
                        }
                    }
                })
        }
    }

    func preparePosts(_ topic: String, count: Int) {
        let payload = Run.payload(scenario)
        perRead = count
        var stream: UInt32 = 1
        for _ in 0..<reads {
            requests.append(
                Run.lasting { out in
                    for _ in 0..<count {
                        HTTPClient.post(stream: stream, topic: topic, payload: payload).withUnsafeBytes {
                            out.append($0)
                        }
                        stream += 2
                    }
                })
        }
    }

    /// Sends the next read.
    func send(_ loop: Loop) {
        if requests.isEmpty {
            loop.arrived(UnsafeRawBufferPointer(rebasing: items[begun..<begun + quantum]), from: peer)
            published += (begun + quantum) / frame
            begun = (begun + quantum) % frame
        } else {
            loop.arrived(requests[next], from: peer)
            next += 1
            published += perRead
        }
    }
}
