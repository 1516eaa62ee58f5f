// MessageFormat: a message as text, as a JSON object or as raw bytes.

import Bytes
import Client
import Glibc
import RSocket

struct MessageFormat {
    enum Kind: String {
        case text, json, raw
    }

    let kind: Kind
    /// Whether the output goes to a terminal, which interprets control characters.
    let isTerminal: Bool

    /// Appends one message.
    /// - Parameters:
    ///   - info: nil unless it was requested and the broker sent it.
    ///   - topic: the name of the message's topic if the subscription is to a pattern. It contains no space, so a
    ///     space separates it from what follows.
    func append(
        _ data: UnsafeRawBufferPointer, info: MessageInfo?, topic: String? = nil, metadata: UnsafeRawBufferPointer?,
        to out: inout ByteBuffer
    ) {
        switch kind {
        case .raw: out.append(data)
        case .text:
            if let topic { out.append(SafeText.line(topic) + " ") }
            if let info { out.append("#\(info.sequence) \(Self.clock(info.timestamp)) ") }
            if isTerminal {
                SafeText.appendForTerminal(data, newlines: true, to: &out)
            } else {
                out.append(data)
            }
            out.append("\n")
        case .json: appendJSON(data, info, topic, metadata, to: &out)
        }
    }

    private func appendJSON(
        _ data: UnsafeRawBufferPointer, _ info: MessageInfo?, _ topic: String?, _ metadata: UnsafeRawBufferPointer?,
        to out: inout ByteBuffer
    ) {
        out.append("{")
        if let topic {
            out.append("\"topic\":")
            JSONText.append(topic, to: &out)
            out.append(",")
        }
        if let info {
            // The epoch is a string: it uses all 64 bits, and many parsers store numbers as doubles.
            out.append("\"sequence\":\(info.sequence),\"epoch\":\"\(info.epoch)\",")
            out.append("\"timestamp_ns\":\(info.timestamp),\"dropped\":\(info.dropped),")
            if let metadata {
                let given = info.removeOwn(from: metadata)
                append(given.withUnsafeBytes { MessageProperties(metadata: $0) }, to: &out)
            }
        }
        if data.isUTF8 {
            out.append("\"payload\":")
            JSONText.append(data, to: &out)
        } else {
            out.append("\"payload_base64\":\"")
            out.append(Base64.encode(data))
            out.append("\"")
        }
        out.append("}\n")
    }

    /// Appends the publisher's properties of the message, in the same form as in JSON lines over HTTP.
    private func append(_ properties: MessageProperties, to out: inout ByteBuffer) {
        if !properties.contentType.isEmpty {
            out.append("\"content_type\":")
            JSONText.append(properties.contentType, to: &out)
            out.append(",")
        }
        // If a name occurs twice, the last one wins.
        let headers = Dictionary(properties.headers.map { ($0.name, $0.value) }) { $1 }
        guard !headers.isEmpty else { return }
        var separator = "\"headers\":{"
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            out.append(separator)
            JSONText.append(name, to: &out)
            out.append(":")
            JSONText.append(value, to: &out)
            separator = ","
        }
        out.append("},")
    }

    /// The local time of day to the millisecond: 14:03:07.125
    static func clock(_ nanoseconds: Int64) -> String {
        var seconds = time_t(nanoseconds / 1_000_000_000)
        var milliseconds = nanoseconds % 1_000_000_000 / 1_000_000
        if milliseconds < 0 {
            milliseconds += 1000
            seconds -= 1
        }
        var local = tm()
        guard localtime_r(&seconds, &local) != nil else { return "?" }
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let fraction = String(1000 + milliseconds).dropFirst()
        return "\(two(local.tm_hour)):\(two(local.tm_min)):\(two(local.tm_sec)).\(fraction)"
    }
}
