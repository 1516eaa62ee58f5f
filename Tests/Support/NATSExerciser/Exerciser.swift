// Exerciser: drives a NATSConnection over a socket, with poll(2).
//
//     nats-exerciser URL [tls off|ifOffered|required|first] [ca FILE] [creds FILE] [seed FILE] [ping MILLISECONDS]
//
// A URL that begins with tls:// means `tls required`. Commands, one a line; headers and payloads are in hexadecimal,
// and - means none:
//
//     sub FILTER QUEUE ID     unsub ID MAX     pub SUBJECT REPLY NAME=VALUE,… PAYLOAD     flush     quit
//
// Each event is a line, and so is each error of a command:
//
//     info SERVERS HEADERS JETSTREAM MOVE          ready VERSION TLS      message SUBJECT ID REPLY HEADERS PAYLOAD
//     flush NUMBER                                 flushed NUMBER         refused TEXT
//     failed TEXT                                  rejected TEXT

import Bytes
import EventLoop
import Glibc
import NATS
import TLS

final class Exerciser {
    private var connection: NATSConnection
    private let fd: Int32
    private var stream: TLSStream?
    private let context: TLSContext
    private let name: String
    private var isSecuring = false
    private var wantsWrite = false
    private var commands = ByteBuffer()
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)

    static func main(_ arguments: [String]) {
        do {
            let exerciser = try Exerciser(arguments)
            try exerciser.run()
        } catch {
            report("failed \(error)")
            exit(1)
        }
    }

    private init(_ arguments: [String]) throws {
        guard arguments.count > 1 else { throw NATSError(.invalid, "A URL is missing.", scope: .call) }
        let server = try NATSServerAddress(parsing: arguments[1])
        var options = NATSOptions(name: "exerciser", version: "1")
        options.credentials = server.credentials
        options.tls = server.requiresTLS ? .required : .off
        var tls = TLSClientSettings()
        for index in stride(from: 2, to: arguments.count - 1, by: 2) {
            let value = arguments[index + 1]
            switch arguments[index] {
            case "ca": tls.authority = value
            case "creds": options.credentials = try NATSCredentials(credentialsFile: Exerciser.file(value))
            case "seed": options.credentials = try NATSCredentials(seedFile: Exerciser.file(value))
            case "ping": options.limits.pingInterval = (UInt64(value) ?? 0) * 1_000_000
            case "tls":
                let all: [String: NATSTLS] = [
                    "off": .off, "ifOffered": .ifOffered, "required": .required, "first": .first,
                ]
                options.tls = all[value] ?? .off
            default: throw NATSError(.invalid, "The option \(arguments[index]) is unknown.", scope: .call)
            }
        }
        context = try TLSContext(tls)
        name = server.tlsName
        connection = NATSConnection(options)
        fd = try Socket.connect(to: Endpoint(host: server.host, port: server.port), timeout: 5_000_000_000)
    }

    private static func file(_ path: String) -> [UInt8] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: NATSCredentials.maxFile + 1)
        bytes.removeLast(bytes.count - fread(&bytes, 1, bytes.count, file))
        return bytes
    }

    private static func report(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = Glibc.write(1, bytes, bytes.count)
    }

    private func run() throws {
        connection.opened(now: Clock.monotonic())
        while true {
            try handleEvents()
            try send()
            if connection.isEnded { exit(1) }
            let writes = wantsWrite || !connection.pending.isEmpty && !isSecuring
            var requests = [
                pollfd(fd: fd, events: Int16(POLLIN) | (writes ? Int16(POLLOUT) : 0), revents: 0),
                pollfd(fd: 0, events: connection.isReady ? Int16(POLLIN) : 0, revents: 0),
            ]
            let now = Clock.monotonic()
            let timeout = connection.deadline.map { Int32(clamping: ($0 > now ? $0 - now : 0) / 1_000_000 + 1) } ?? -1
            poll(&requests, 2, stream?.hasInput == true ? 0 : timeout)
            connection.tick(now: Clock.monotonic())
            try handleEvents()
            if isSecuring {
                try secure()
            } else if requests[0].revents != 0 || stream?.hasInput == true {
                try receive()
            }
            if requests[1].revents != 0 { try readCommands() }
        }
    }

    private func secure() throws {
        switch stream?.handshake() {
        case .done:
            isSecuring = false
            wantsWrite = false
            connection.secured(now: Clock.monotonic())
        case .wantsRead: wantsWrite = false
        case .wantsWrite: wantsWrite = true
        case .failed, nil:
            Exerciser.report("failed tls: \(stream?.failure ?? "")")
            connection.closed()
        }
    }

    private func receive() throws {
        switch stream?.read(into: buffer) ?? Socket.read(fd, into: buffer) {
        case .bytes(let count):
            connection.received(UnsafeRawBufferPointer(rebasing: buffer[..<count]), now: Clock.monotonic())
            try handleEvents()
        case .blocked: break
        case .end, .failed: connection.closed()
        }
    }

    private func send() throws {
        while !isSecuring, !connection.pending.isEmpty {
            if let stream, stream.isHeld, case .blocked = stream.flush() { return }
            let bytes = UnsafeRawBufferPointer(rebasing: connection.pending.prefix(TLSStream.record))
            switch stream?.write(record: bytes) ?? Socket.write(fd, bytes) {
            case .bytes(let count): connection.sent(count)
            case .blocked: return
            case .failed: return connection.closed()
            }
        }
    }

    private func handleEvents() throws {
        while let event = connection.next() {
            switch event {
            case .startTLS:
                stream = try TLSStream(connecting: fd, to: name, context, .none)
                isSecuring = true
                wantsWrite = true
            case .ready:
                reportInfo(mustMove: false)
                Exerciser.report("ready \(connection.info?.version ?? "") \(connection.usesTLS)")
            case .message(let message):
                let headers = message.headers.map(Exerciser.hex) ?? "-"
                Exerciser.report(
                    "message \(message.subject.text) \(message.subscription) \(message.reply?.text ?? "-") \(headers) "
                        + Exerciser.hex(message.payload))
            case .flushed(let number): Exerciser.report("flushed \(number)")
            case .info(let mustMove): reportInfo(mustMove: mustMove)
            case .refused(let error): Exerciser.report("refused \(error)")
            case .failed(let error, _):
                Exerciser.report("failed \(error)")
                exit(1)
            }
        }
    }

    private func reportInfo(mustMove: Bool) {
        guard let info = connection.info else { return }
        Exerciser.report("info \(info.urls.count) \(info.hasHeaders) \(info.hasJetStream) \(mustMove)")
    }

    private static func hex(_ bytes: UnsafeRawBufferPointer) -> String {
        bytes.isEmpty
            ? "."
            : String(
                decoding: bytes.flatMap { [Hex.digit($0 >> 4), Hex.digit($0 & 15)] }, as: UTF8.self)
    }

    private func readCommands() throws {
        let count = Glibc.read(0, commands.reserve(64 << 10), 64 << 10)
        if count <= 0 { exit(0) }
        commands.commit(count)
        while let end = commands.readable.firstIndex(of: 0x0A) {
            let line = String(decoding: commands.readable[..<end], as: UTF8.self)
            commands.consume(end + 1)
            do throws(NATSError) {
                try obey(line.split(separator: " ").map(String.init))
            } catch {
                Exerciser.report("rejected \(error)")
            }
        }
    }

    private func obey(_ words: [String]) throws(NATSError) {
        func optional(_ word: String) -> String? { word == "-" ? nil : word }
        switch words.first {
        case "sub": try connection.subscribe(words[1], queue: optional(words[2]), subscription: UInt64(words[3]) ?? 0)
        case "unsub":
            try connection.unsubscribe(UInt64(words[1]) ?? 0, after: optional(words[2]).flatMap { UInt64($0) })
        case "pub":
            var headers: NATSHeaderBlock?
            if let list = optional(words[3]) {
                var block = NATSHeaderBlock()
                for pair in list.split(separator: ",") {
                    let parts = pair.split(separator: "=", maxSplits: 1)
                    try block.append(String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
                }
                headers = block
            }
            let payload = optional(words[4]).map(Exerciser.bytes) ?? []
            let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: payload.count, alignment: 1)
            defer { memory.deallocate() }
            memory.copyBytes(from: payload)
            try connection.publish(
                words[1], reply: optional(words[2]), headers: headers, payload: UnsafeRawBufferPointer(memory))
        case "flush":
            let number = try connection.flush()
            Exerciser.report("flush \(number)")
        default: exit(0)
        }
    }

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.utf8.map { Hex.value($0) ?? 0 }
        return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
