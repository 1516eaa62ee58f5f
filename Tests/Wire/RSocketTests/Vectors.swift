// The golden vectors of Protocol/vectors, read from the repository.

import Foundation
import Testing

@testable import RSocket

struct FrameVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var hex: String
    var meaning: String?
    var error: String?
    var canonical: Bool?
    var testDescription: String { name }
}

struct MetadataVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var form: String
    var hex: String?
    var route: String?
    var tags: [String]?
    var error: String?
    var carried: String?
    var testDescription: String { name }
}

struct FragmentVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var type: String
    var n: UInt32?
    var complete: Bool
    var metadata: String?
    var data: String
    var fragment: Int
    var frames: [String]
    var testDescription: String { name }
}

struct Conversation: Decodable, Sendable, CustomTestStringConvertible {
    struct Step: Decodable, Sendable {
        var client: String?
        var server: String?
    }
    struct Limits: Decodable, Sendable {
        var payload: Int?
        var metadata: Int?
        var keepalive: Int?
        var setup: Int?
        var held: Int?
        var reassembly: Int?
        var partials: Int?
        var streams: Int?
    }
    var name: String
    var rule: String
    var steps: [Step]
    var expect: [String]
    var answers: [String]?
    var limits: Limits?
    var testDescription: String { "\(rule): \(name)" }

    var connectionLimits: ConnectionLimits {
        var result = ConnectionLimits()
        guard let limits else { return result }
        result.maxPayload = limits.payload ?? result.maxPayload
        result.maxMetadata = limits.metadata ?? result.maxMetadata
        result.maxKeepaliveData = limits.keepalive ?? result.maxKeepaliveData
        result.maxSetup = limits.setup ?? result.maxSetup
        result.maxHeld = limits.held ?? result.maxHeld
        result.maxReassembly = limits.reassembly ?? result.maxReassembly
        result.maxPartials = limits.partials ?? result.maxPartials
        result.maxStreams = limits.streams ?? result.maxStreams
        return result
    }
}

enum Vectors {
    private struct File<Vector: Decodable>: Decodable {
        var vectors: [Vector]
    }

    static let frames: [FrameVector] = load("frames.json")
    static let metadata: [MetadataVector] = load("metadata.json")
    static let fragments: [FragmentVector] = load("fragments.json")
    static let conversations: [Conversation] = load("conversations.json")

    /// An unreadable file ends the test run: there would be nothing to test.
    private static func load<Vector: Decodable>(_ name: String) -> [Vector] {
        let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Protocol/vectors/\(name)").standardized
        do {
            let vectors = try JSONDecoder().decode(File<Vector>.self, from: Data(contentsOf: url)).vectors
            precondition(!vectors.isEmpty, "\(name) holds no vectors")
            return vectors
        } catch {
            fatalError("\(url.path): \(error)")
        }
    }
}

func unhex(_ text: String) -> [UInt8] {
    let digits = text.utf8.map { UInt8($0 < 0x3a ? $0 - 0x30 : $0 - 0x57) }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func hex(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
