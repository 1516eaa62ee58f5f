// Heads of plain HTTP requests: method, target and fields, and how they are interpreted. The input has one head per
// line: the method, the target, then fields as `name: value`.

import Bytes
import ForebayWire
import RSocket

@testable import Core
@testable import HTTP2

func fuzzPlainRequest(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    let kind = input.byte()
    let method = input.part(before: 10).asText
    let target = input.part(before: 10).asText
    var limits = PlainLimits()
    limits.target = 512
    limits.headers = 1024
    limits.messageHeaders = 5
    var request = PlainRequest(method: method, target: target, limits: limits)
    var first = HTTP1Request(method: method, target: target, version: "HTTP/1.\(kind & 1)", limits: Limits())
    var fields: [(name: String, value: String)] = []
    while !input.isEmpty {
        let line = input.part(before: 10)
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.count
        let (name, value) = (line.slice(0..<colon), line.slice(min(colon + 1, line.count)..<line.count))
        first.add(name, value)
        // The transports refuse such a value earlier.
        if value.contains(where: { $0 < 0x20 && $0 != 9 || $0 == 0x7F }) { continue }
        request.add(name, value)
        fields.append((name.asText.lowercased(), value.asText))
    }
    let origins: [CORSPolicy.Origins] = [.none, .any, .listed(["https://a.org", "null"])]
    let hosts: [HostPolicy.Names] = [.any, .listed([]), .listed(["broker.example"])]
    let plain = PlainProtocol(
        limits: limits, cors: CORSPolicy(origins[Int(kind >> 1) % 3]), hosts: HostPolicy(hosts[Int(kind >> 3) % 3]))
    answer(request, plain)
    checkFields(request, limits)
    _ = (first.problem, first.isAmbiguous, first.hasBody, first.size)
    callGRPC(method, target, fields)
}

private func answer(_ request: PlainRequest, _ plain: PlainProtocol) {
    let answer: PlainAnswer
    do throws(Problem) {
        switch try plain.call(request) {
        case .subscribe(let call):
            mustHold((1...UInt32(Int32.max)).contains(call.demand), "a demand of \(call.demand)")
            let names = call.options.map(\.name)
            mustHold(Set(names).count == names.count && names.contains("meta"), "the options are \(names)")
            answer = plain.streamHead(call.format, id: SubscriptionID(high: 1, low: 2), to: request)
        case .publish(let call):
            mustHold(call.headers.count <= plain.limits.messageHeaders + 1, "too many headers")
            var metadata = ByteBuffer()
            call.appendMetadata(into: &metadata)
            let carried = MessageProperties(metadata: metadata.readable)
            let expected = MessageProperties(
                contentType: call.contentType ?? "", headers: call.headers.map { ($0.name, $0.value) })
            mustHold(carried == expected, "\(expected) is carried as \(carried)")
            answer = plain.answerPublished(sequence: 5, epoch: 7, origin: request.origin)
        case .request(let id, let n):
            mustHold(n > 0 && SubscriptionID(id.text) == id, "the id \(id) is a different one")
            answer = plain.answerEmpty(to: request)
        case .ended: answer = plain.answerEmpty(to: request)
        case .options(let allow): answer = plain.answerOptions(allow: allow, to: request)
        }
    } catch {
        mustHold((400...599).contains(error.status) && !error.detail.isEmpty, "\(error) is not a refusal")
        var out = ByteBuffer()
        error.append(into: &out)
        answer = plain.answer(error, to: request)
    }
    for header in answer.headers {
        // A header may repeat a peer's input, which must not become another header.
        mustHold(
            header.value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 9 }, "\(header) has control characters")
    }
}

private func checkFields(_ request: PlainRequest, _ limits: PlainLimits) {
    if let text = request.lastEventID, let id = try? EventID(text) {
        mustHold((try? EventID(id.text)) == id, "\(text) is another id: \(id)")
    }
    if let format = try? StreamFormat(accept: request.accept) { mustHold(!format.mime.isEmpty, "no MIME type") }
    if let target = try? Target(request.target, limit: limits.target) {
        _ = try? target.segments()
        if let options = try? target.options() { mustHold(options.count <= PlainLimits.options, "too many options") }
        if let topic = Target.plainTopic(request.target) {
            mustHold((try? target.segments()) == ["v1", "topics", topic, "messages"], "\(topic) is another topic")
        }
    }
    if let text = request.authorization { _ = try? Credential(authorization: text) }
    for text in [request.target, request.accept ?? "", request.origin ?? ""] {
        let encoded = GRPCMessageText.encode(text)
        mustHold(encoded.utf8.allSatisfy { (0x20...0x7E).contains($0) }, "\(encoded) cannot be in a header")
        guard text.utf8.count <= GRPCMessageText.longest else { continue }
        mustHold(Array(GRPCMessageText.decode(encoded).utf8) == Array(text.utf8), "a status text has changed")
        _ = GRPCMessageText.decode(text)
    }
}

private func callGRPC(_ method: String, _ path: String, _ fields: [(name: String, value: String)]) {
    do throws(GRPCHeadRefusal) {
        let call = try GRPCCall.parse(method: method, path: path, headers: fields)
        mustHold(call.method.path == path && method == "POST", "another method is called")
        mustHold(GRPCCall.isMeant(fields), "a call is not recognized as one")
    } catch {
        mustHold(!error.headers.isEmpty, "a refusal without headers")
    }
}
