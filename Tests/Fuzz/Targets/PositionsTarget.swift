// The positions of a subscription to a pattern: a pattern, then JSON in the following lines; compared with what the
// client's JSON parser reads.

import Bytes
import ForebayWire

@testable import Core

func fuzzPositions(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let pattern = input.part(before: 10).asText
    withCopy(input.rest) { bytes in
        let expected = bytes.isEmpty ? [] : JSON(bytes).flatMap(positions)
        do throws(Refusal) {
            let found = try PatternPositions.parse(bytes, most: most)
            mustHold(found.count <= most && found == expected, "\(bytes.asText) is read as \(found)")
            var text = ByteBuffer()
            ResumePosition.append(found, to: &text)
            mustHold((try? PatternPositions.parse(text.readable, most: most)) == found, "\(text.readable.asText)")
            guard let pattern = try? TopicPattern(parsing: pattern), divide(found, pattern) else { return }
            mustHold(text.count <= found.reduce(2) { $0 + $1.jsonSize }, "positions take more than was said")
        } catch {
            mustHold(error.code == .invalid && !error.message.isEmpty, "\(error) is not a refusal")
            mustHold(expected == nil || expected?.count ?? 0 > most, "\(bytes.asText) is refused: \(error)")
        }
    }
}

private let most = 4

/// What the client's parser reads; nil if these are not positions, if strict JSON does not allow them, or if a name is
/// too long.
private func positions(_ value: JSON) -> [ResumePosition]? {
    guard case .object(let members) = value else { return nil }
    var positions: [ResumePosition] = []
    for (topic, value) in members {
        guard case .array(let pair) = value, pair.count == 2, case .string(let epoch) = pair[0],
            case .number(let sequence) = pair[1], isExact(topic), topic.utf8.count <= TopicName.longest,
            let epoch = number(epoch),
            !sequence.hasPrefix("0"), let sequence = number(sequence)
        else { return nil }
        positions.append(ResumePosition(topic: topic, epoch: epoch, sequence: sequence))
    }
    return positions
}

/// Whether a text is what was sent: the client's parser replaces what it cannot decode.
private func isExact(_ text: String) -> Bool { !text.unicodeScalars.contains { $0 == "\u{FFFD}" || $0 == "\0" } }

private func number(_ text: String) -> UInt64? {
    text.utf8.allSatisfy { (48...57).contains($0) } ? UInt64(text).flatMap { $0 > 0 ? $0 : nil } : nil
}

/// Sends each shard its positions. Returns whether these can be positions in the pattern.
private func divide(_ positions: [ResumePosition], _ pattern: TopicPattern) -> Bool {
    let areNames = positions.allSatisfy { position in
        let name = position.topic
        return TopicName.fault(TopicName.isSystem(name) ? String(name.dropFirst(5)) : name) == nil
    }
    let areDifferent = Set(positions.map(\.topic)).count == positions.count
    let allMatch = positions.allSatisfy { pattern.matches($0.topic) }
    do throws(Refusal) {
        let divided = try PatternPositions(positions, in: pattern, most: most, shards: 3)
        mustHold(areNames && areDifferent && allMatch, "\(positions) of \(pattern) are accepted")
        for position in positions {
            let place = divided[Shard.owner(of: position.topic, among: 3)][position.topic]
            mustHold(place?.epoch == position.epoch && place?.next.value == position.sequence, "\(position) was lost")
        }
        mustHold((0..<3).reduce(0) { $0 + divided[$1].count } == positions.count, "there are other positions")
        return true
    } catch {
        mustHold(error.code == .invalid, "\(error) is not a refusal")
        mustHold(!areNames || !areDifferent || !allMatch, "\(positions) of \(pattern) are refused: \(error)")
        return false
    }
}
