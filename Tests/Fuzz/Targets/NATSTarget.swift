// NATS: what a server sends, in any pieces, to the parser and to a connection; header blocks, URLs and files of keys.

import Bytes

@testable import NATS

func fuzzNATS(_ bytes: UnsafeRawBufferPointer) {
    var input = FuzzInput(bytes)
    switch input.number(below: 6) {
    case 0: parse(&input)
    case 1, 2: connect(&input)
    case 3: readHeaders(input.rest)
    case 4: readServers(input.rest.asText)
    default: readKeys(Array(input.rest))
    }
}

private let limits: NATSLimits = {
    var limits = NATSLimits()
    limits.maxControlLine = 100
    limits.maxInfo = 300
    limits.maxMessage = 200
    limits.maxPending = 8_000
    return limits
}()

/// The rest of the input in pieces whose sizes repeat.
private func pieces(_ input: inout FuzzInput) -> (all: UnsafeRawBufferPointer, pieces: [UnsafeRawBufferPointer]) {
    let sizes = [1 + input.number(below: 40), 1 + input.number(below: 40)]
    let all = input.rest
    var list: [UnsafeRawBufferPointer] = []
    while !input.isEmpty { list.append(input.take(sizes[list.count % 2])) }
    return (all, list)
}

private func parts(_ message: NATSMessage) -> String {
    mustHold(!message.subject.isEmpty, "a message without a subject")
    mustHold((message.headers?.count ?? 0) + message.payload.count <= limits.maxMessage, "a message beyond the limit")
    return "\(Array(message.subject)) \(message.subscription) \(message.reply.map(Array.init) ?? []) "
        + "\(message.headers.map(Array.init) ?? []) \(Array(message.payload))"
}

// MARK: The parser

private func parse(_ input: inout FuzzInput) {
    let (all, pieces) = pieces(&input)
    let whole = operations([all])
    let cut = operations(pieces)
    mustHold(whole == cut, "in pieces \(cut), whole \(whole)")
}

private func operations(_ pieces: [UnsafeRawBufferPointer]) -> [String] {
    var parser = NATSParser(limits: limits)
    var lines: [String] = []
    for piece in pieces {
        withCopy(piece) { bytes in
            parser.feed(bytes)
            do throws(NATSError) {
                while let operation = try parser.next() { lines.append(describe(operation)) }
            } catch {
                if lines.last != "\(error)" { lines.append("\(error)") }
                mustHold(error.endsConnection && !parser.hasUnread, "\(error) does not end the connection")
            }
        }
        mustHold(parser.bufferedBytes <= 1024, "\(parser.bufferedBytes) bytes are buffered")
    }
    return lines
}

private func describe(_ operation: NATSOperation) -> String {
    switch operation {
    case .info(let json): "info \(Array(json))"
    case .message(let message): parts(message)
    case .ping: "ping"
    case .pong: "pong"
    case .ok: "ok"
    case .error(let text): "error \(Array(text))"
    }
}

// MARK: The connection

private func connect(_ input: inout FuzzInput) {
    let tls = input.pick([NATSTLS.off, .ifOffered, .required, .first])
    let isReady = input.number(below: 2) == 1
    let (all, pieces) = pieces(&input)
    let whole = conversation([all], tls, isReady)
    let cut = conversation(pieces, tls, isReady)
    // Bytes after INFO are refused with INFO if they come with it, and later if not.
    if !whole.contains(where: { $0.contains("unencrypted") }) {
        mustHold(whole == cut, "in pieces \(cut), whole \(whole)")
    }
}

/// What a connection reports and writes.
private func conversation(_ pieces: [UnsafeRawBufferPointer], _ tls: NATSTLS, _ isReady: Bool) -> [String] {
    var options = NATSOptions(name: "n", version: "v")
    options.limits = limits
    options.tls = tls
    options.credentials = .password(user: "u", password: "p")
    var connection = NATSConnection(options)
    var lines: [String] = []
    connection.opened(now: 1)
    report(&connection, &lines)
    if isReady {
        withBytes("INFO {\"tls_available\":true}\r\n") {
            connection.received($0, now: 1)
            report(&connection, &lines)
        }
        withBytes("PONG\r\n") {
            connection.received($0, now: 1)
            report(&connection, &lines)
        }
        _ = try? connection.flush()
    }
    for piece in pieces {
        withCopy(piece) { bytes in
            connection.received(bytes, now: 2)
            report(&connection, &lines)
        }
        mustHold(connection.bufferedBytes <= 1024, "\(connection.bufferedBytes) bytes are buffered")
    }
    if !connection.isEnded {
        lines.append("\(Array(connection.pending))")
        connection.closed()
        report(&connection, &lines)
    }
    mustHold(connection.isEnded && connection.pending.isEmpty && connection.deadline == nil, "the connection goes on")
    return lines
}

private func report(_ connection: inout NATSConnection, _ lines: inout [String]) {
    while let event = connection.next() {
        mustHold(lines.last?.hasPrefix("failed") != true, "an event follows the failure")
        switch event {
        case .startTLS:
            lines.append("startTLS")
            mustHold(!connection.pending.asText.contains("CONNECT"), "credentials are sent in plain text")
            connection.secured(now: 2)
        case .ready: lines.append("ready")
        case .message(let message):
            mustHold(connection.isReady, "a message before the connection is ready")
            lines.append(parts(message))
        case .flushed(let number): lines.append("flushed \(number)")
        case .info(let mustMove): lines.append("info \(mustMove)")
        case .refused(let error): lines.append("refused \(error)")
        case .failed(let error, let cause):
            mustHold(error.endsConnection && connection.isEnded, "\(error) does not end the connection")
            lines.append("failed \(error) \(cause.map { "\($0)" } ?? "")")
        }
        mustHold(
            connection.pending.count <= limits.maxPending + NATSLimits.reserved,
            "\(connection.pending.count) bytes wait")
    }
    if connection.info.map({ $0.urls.count > NATSLimits.maxURLs }) == true { report("too many URLs") }
}

// MARK: Texts

/// Headers that can be read can be written, unless they have characters that we do not write.
private func readHeaders(_ block: UnsafeRawBufferPointer) {
    withCopy(block) { block in
        guard let headers = try? NATSHeaders(block) else { return }
        var count = 0
        var copy = NATSHeaderBlock()
        var isCopied = headers.status == nil
        headers.forEach { name, value in
            count += 1
            mustHold(!name.isEmpty, "a header without a name")
            guard name.isUTF8, value.isUTF8 else { return isCopied = false }
            if (try? copy.append(name.asText, value.asText)) == nil { isCopied = false }
        }
        mustHold(count == headers.count && count <= NATSLimits.maxHeaders, "\(count) headers, not \(headers.count)")
        guard isCopied else { return }
        var out = ByteBuffer()
        guard (try? NATSWriter.publish("s", headers: copy, payload: .nothing, into: &out)) != nil else {
            return report("the headers cannot be written")
        }
        let prefix = "HPUB s \(copy.size) \(copy.size)\r\n".utf8.count
        let written = out.readable.slice(prefix..<out.count - 2)
        guard let again = try? NATSHeaders(written) else { return report("written headers cannot be read") }
        var expected: [String] = []
        headers.forEach { expected.append("\(Array($0)) \(Array($1))") }
        var found: [String] = []
        again.forEach { found.append("\(Array($0)) \(Array($1))") }
        mustHold(expected == found, "\(expected) became \(found)")
    }
}

private func readServers(_ text: String) {
    let parts = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if let server = try? NATSServerAddress(parsing: text) {
        let again = try? NATSServerAddress(parsing: server.description)
        mustHold(again?.host == server.host && again?.port == server.port, "\(server) is another server")
    }
    guard var servers = try? NATSServers(parsing: parts[0]) else { return }
    let count = servers.all.count
    servers.discovered(Array(parts.dropFirst()))
    let all = servers.all.count
    mustHold(all <= count + NATSServers.Limits.maxDiscovered, "too many servers")
    var seen: Set<String> = []
    for _ in 0..<all {
        let attempt = servers.next(now: 5, random: 1)
        mustHold(attempt.time == 5, "a wait within the round")
        seen.insert(attempt.server.host.lowercased() + ":\(attempt.server.port)")
    }
    mustHold(seen.count == all, "a server was tried twice")
    mustHold(servers.next(now: 5, random: 1).time > 5, "no wait after the round")
    servers.discovered([])
    mustHold(servers.all.count == count, "a discovered server remains")
    let isValid = NATSSubject.isValid(text)
    var out = ByteBuffer()
    do throws(NATSError) {
        try NATSWriter.publish(text, payload: .nothing, into: &out)
        mustHold(isValid && out.readable.filter { $0 == 10 }.count == 2, "an invalid subject is written")
    } catch {
        mustHold(out.isEmpty && (!isValid || error.word == .tooLarge), "\(error) for a valid subject")
    }
}

private func readKeys(_ file: [UInt8]) {
    if let credentials = try? NATSCredentials(credentialsFile: file) {
        guard case .jwt = credentials else { return report("a file without a JWT is accepted") }
    }
    if let credentials = try? NATSCredentials(seedFile: file) {
        guard case .key(let key) = credentials else { return report("a file without a seed is accepted") }
        mustHold(key.publicKey.utf8.count == 56 && key.publicKey.hasPrefix("U"), "\(key.publicKey) is no user")
    }
    if let bytes = NATSKey.decode(file) {
        mustHold(Array(NATSKey.encode(bytes).utf8) == file, "\(file) is encoded differently")
    }
    mustHold(NATSKey.decode(NATSKey.encode(Array(file.prefix(36))).utf8) == Array(file.prefix(36)), "another key")
}
