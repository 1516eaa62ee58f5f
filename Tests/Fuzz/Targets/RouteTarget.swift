// Routes and their options; the broker parses what the client writes; addresses of brokers.

import Client
import ForebayWire

@testable import Core

func fuzzRoute(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    if input.number(below: 4) == 0 { return readAddress(input.rest.asText) }
    let text = input.part(before: 10).asText
    var tags: [String] = []
    while !input.isEmpty { tags.append(input.part(before: 10).asText) }
    do throws(Refusal) {
        let route = try Core.Route(text, tags: tags)
        check(route)
        write(route)
    } catch {
        mustHold(error.word == .invalid && !error.message.isEmpty, "\(error) is the wrong refusal")
    }
}

private func check(_ route: Core.Route) {
    mustHold(route.options.count <= Core.Route.mostOptions, "there are \(route.options.count) options")
    let names = route.options.map(\.name)
    mustHold(Set(names).count == names.count, "an option appears twice")
    func unknown(_ known: [String]) -> [String] {
        names.filter { !known.contains($0) && !BrokerProtocol.isIgnorable(option: $0) }
    }
    if let options = try? Core.SubscribeOptions(route) {
        mustHold((1...Int(Int32.max)).contains(options.buffer), "a buffer of \(options.buffer)")
        mustHold(unknown(Core.SubscribeOptions.names).isEmpty, "an unknown option is accepted")
        if case .from(let sequence) = options.start { mustHold(sequence.value > 0, "a sequence of 0") }
        if let since = options.since { check(since) }
    }
    if let number = (try? route.publisherNumber()) ?? nil {
        mustHold(number.fault == nil, "the number \(number) is not valid")
    }
    if (try? PublishOptions(route)) != nil {
        mustHold(unknown(PublishOptions.names).isEmpty, "an unknown option is accepted")
    }
}

private func check(_ time: StartTime) {
    mustHold(options(since: time) == time, "\(time) is read back as another time")
    switch time {
    case .at(let time): mustHold(time >= 0, "a time before 1970")
    case .ago(let duration): mustHold(time.resolved(now: .max) == .max - duration, "a negative duration")
    }
}

private func options(since time: StartTime) -> StartTime? {
    guard let route = try? Core.Route("t?since=\(time)", tags: []) else { return nil }
    return try? Core.SubscribeOptions(route).since
}

private func write(_ route: Core.Route) {
    // The client's option names are fixed, and need no percent-encoding.
    let isPlain = route.options.allSatisfy { !$0.name.isEmpty && Client.Route.encode($0.name) == $0.name }
    guard isPlain, let tags = Client.Route(route.name, options: route.options).tags else { return }
    mustHold(tags.allSatisfy { $0.utf8.count <= 255 }, "a tag is too long")
    guard let again = try? Core.Route(tags[0], tags: Array(tags.dropFirst())) else {
        return report("the client's route \(tags) is refused")
    }
    mustHold(
        again.name == route.name && again.options.elementsEqual(route.options, by: ==),
        "\(route) is read back as \(again)")
}

private func readAddress(_ text: String) {
    guard let address = try? BrokerAddress(url: text) else { return }
    mustHold(address.port > 0 && !address.host.isEmpty, "\(text) has no port or no host")
    let scheme = address.transport == .rsocket ? "rsocket" : "http"
    let again = try? BrokerAddress(url: "\(scheme)://\(address)/")
    mustHold(again?.host == address.host && again?.port == address.port, "\(text) is another address: \(address)")
}
