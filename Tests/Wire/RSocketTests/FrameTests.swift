// Frames written and decoded again; fragments reassembled by hand.

import Bytes
import Testing

@testable import RSocket

@Suite struct FrameTests {
    @Test func aPayloadDecodesToWhatWasWritten() throws {
        let frames = written { out in
            bytes("meta") { meta in
                bytes("data") { data in
                    FrameWriter.payload(
                        stream: 7, next: true, complete: true, metadata: meta, data: data, fragment: 0, into: &out)
                }
            }
        }
        try #require(frames.count == 1)
        let frame = try decode(frames[0])
        #expect(frame.stream == 7)
        #expect(
            frame.body
                == .payload(next: true, complete: true, Frame.Content(metadata: 9..<13, data: 13..<17)))
    }

    @Test(arguments: [0, 1, 3, 50, 51, 52, 55, 58, 60, 61, 100, 116, 200, 1000], [nil, 0, 1, 54, 55, 56, 58, 59, 300])
    func fragmentsCarryAllMetadataFirst(data: Int, metadata: Int?) throws {
        for type in [FrameType.payload, .requestChannel, .requestStream, .requestResponse, .requestFNF] {
            let frames = written { out in
                write(type, metadata.map { pattern($0, 1) }, pattern(data, 7), fragment: 64, into: &out)
            }
            var gotMetadata: [UInt8]?
            var gotData: [UInt8] = []
            for (index, bytes) in frames.enumerated() {
                let last = index == frames.count - 1
                let frame = try decode(bytes)
                #expect(bytes.count <= 64)
                #expect(last || bytes.count == 64)
                #expect(frame.follows == !last)
                #expect(frame.header.type == (index == 0 ? type : .payload))
                #expect(frame.header.type != .payload || frame.flags.contains(.next))
                let isChannelLike = type == .payload || type == .requestChannel
                #expect(frame.flags.contains(.complete) == (last && isChannelLike))
                let content = try #require(contentOf(frame))
                if let range = content.metadata {
                    #expect(gotData.isEmpty)
                    gotMetadata = (gotMetadata ?? []) + bytes[range]
                }
                gotData += bytes[content.data]
            }
            #expect(gotMetadata == metadata.map { pattern($0, 1) })
            #expect(gotData == pattern(data, 7))
            if type == .payload {
                let size = FrameWriter.payloadSize(metadata: metadata, data: data, fragment: 64)
                #expect(size == frames.reduce(0) { $0 + $1.count + 3 })
            }
        }
    }

    @Test func aFrameLongerThanTheWireAllowsIsFragmentedEvenWithoutALimit() throws {
        let data = [UInt8](repeating: 1, count: Wire.maxFrame + 10)
        let frames = written { out in write(.payload, nil, data, fragment: 0, into: &out) }
        #expect(frames.map(\.count) == [Wire.maxFrame, 6 + 16])
    }

    @Test func setupComesBackWithAllItsFields() throws {
        var setup = SetupRequest()
        setup.keepalive = 0xffff_ffff
        setup.resumeToken = [1, 2, 3]
        setup.lease = true
        let frames = written { out in
            bytes("auth") { auth in
                bytes("hello") { data in FrameWriter.setup(setup, metadata: auth, data: data, into: &out) }
            }
        }
        let frame = try decode(frames[0])
        guard case .setup(let fields) = frame.body else {
            Issue.record("not a SETUP")
            return
        }
        #expect(fields.major == 1)
        #expect(fields.keepalive == 0x7fff_ffff)
        #expect(fields.lifetime == 90_000)
        #expect(fields.lease)
        #expect(fields.resumeToken.map { Array(frames[0][$0]) } == [1, 2, 3])
        #expect(String(decoding: frames[0][fields.metadataMime], as: UTF8.self) == MimeType.compositeMetadata)
        #expect(String(decoding: frames[0][fields.dataMime], as: UTF8.self) == MimeType.octetStream)
        #expect(fields.content.metadata.map { String(decoding: frames[0][$0], as: UTF8.self) } == "auth")
        #expect(String(decoding: frames[0][fields.content.data], as: UTF8.self) == "hello")
    }

    @Test func everyPrefixOfEveryFrameDecodesOrIsRefusedForTheConnection() throws {
        let frames = written { out in everyFrame(into: &out) }
        #expect(Set(try frames.map { try decode($0).header.type }).count == FrameType.allCases.count - 1)
        for frame in frames {
            for length in 0..<frame.count {
                do {
                    _ = try decode(Array(frame[..<length]))
                } catch let error as RSocketError {
                    #expect(error.scope == .connection)
                    #expect(error.code == .connectionError)
                }
            }
        }
    }
}
