// Program: from the words of the command line to an exit code.

import Client
import Glibc
import TLS

/// What the process ends with.
enum ExitCode {
    static let done: Int32 = 0
    static let failure: Int32 = 1
    static let usage: Int32 = 2
    static let connection: Int32 = 3

    static func of(_ error: ClientError) -> Int32 {
        if error.code == .badURL || error.code == .badFile || error.code == .badCredentials { return usage }
        return error.endsConnection && !error.isReportedByBroker ? connection : failure
    }
}

enum Program {
    /// A standard descriptor that the caller closed must not become the connection's.
    static func openStandardDescriptors() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 { _ = open("/dev/null", O_RDWR) }
    }

    /// The words of the command line, without the program's name; nil when they are not UTF-8, of which Swift would
    /// make something else.
    static func words() -> [String]? {
        var words: [String] = []
        for index in 1..<max(Int(CommandLine.argc), 1) {
            let argument = CommandLine.unsafeArgv[index]
            guard let word = argument.flatMap({ String(validatingCString: $0) }) else { return nil }
            words.append(word)
        }
        return words
    }

    static func run(_ words: [String]?) -> Int32 {
        do {
            guard let words else {
                throw UsageError("The command line is not UTF-8: give binary messages by --stdin.")
            }
            let arguments = try Arguments(words, commands: commandTable, common: commonOptions)
            if let help = help(arguments) {
                var output = Output()
                output.buffer.append(help)
                output.drain()
                return ExitCode.done
            }
            guard let command = arguments.command else { return ExitCode.usage }
            if let text = try OwnManual.text(command.id, arguments) {
                var output = Output()
                output.buffer.append(text)
                output.drain()
                return ExitCode.done
            }
            return try run(command.id, arguments, brokerAddress(arguments))
        } catch let error as UsageError {
            tell(error.message)
            return ExitCode.usage
        } catch let error as ClientError {
            tell(sentence(error))
            return ExitCode.of(error)
        } catch {
            tell("\(error)")
            return ExitCode.failure
        }
    }

    private static func help(_ arguments: Arguments) -> String? {
        if arguments.wantsVersion { return "forebay \(version)\n" }
        guard arguments.wantsHelp else { return nil }
        if let command = arguments.command { return Help.command(command) }
        return arguments.helpTopic.map { Help.group($0) } ?? Help.program()
    }

    private static func brokerAddress(_ arguments: Arguments) throws -> BrokerAddress {
        var address = try url(arguments)
        address.credentials = try CredentialSettings.read(arguments, address)
        let given = ["ca", "cert", "key", "insecure"].filter { arguments.has($0) }
        guard let first = given.first else { return address }
        guard var tls = address.tls else {
            let scheme = address.transport == .http ? "https" : "rsockets"
            throw UsageError("--\(first) is about TLS: give the broker as --url \(scheme)://\(address).")
        }
        tls.authority = arguments.text("ca")
        tls.certificate = arguments.text("cert")
        tls.key = arguments.text("key")
        tls.verifies = !arguments.has("insecure")
        if tls.key != nil, tls.certificate == nil { throw UsageError("--key needs its certificate: give --cert too.") }
        if tls.authority != nil, !tls.verifies {
            throw UsageError("--insecure trusts whoever answers: leave --ca out, or --insecure.")
        }
        address.tls = tls
        return address
    }

    private static func url(_ arguments: Arguments) throws(ClientError) -> BrokerAddress {
        if let url = arguments.text("url") { return try BrokerAddress(url: url) }
        guard let url = getenv("FOREBAY_URL").map({ String(cString: $0) }), !url.isEmpty else {
            return BrokerAddress(host: "127.0.0.1")
        }
        do {
            return try BrokerAddress(url: url)
        } catch {
            throw ClientError(error.code, "FOREBAY_URL: \(error.message)")
        }
    }

    private static func run(_ command: Command, _ arguments: Arguments, _ address: BrokerAddress) throws -> Int32 {
        switch command {
        case .sub:
            let settings = try SubscribeSettings(arguments)
            if settings.interactive {
                try Terminal.check()
                var view = try Interactive(settings, address)
                return try view.run()
            }
            var subscriber = try Subscriber(settings, address)
            return try subscriber.run()
        case .pub:
            let settings = try PublishSettings(arguments)
            if settings.isSingle { return try SinglePublish(settings, address).run() }
            var publisher = try ChannelPublisher(settings, address)
            return try publisher.run()
        case .ping:
            return try Ping(arguments, address).run()
        case .bench:
            return try Bench.run(BenchSettings(arguments), address)
        case .topics: return try Listing(.topics, json: arguments.has("json")).run(address)
        case .subs: return try Listing(.subscriptions, json: arguments.has("json")).run(address)
        case .conns: return try Listing(.connections, json: arguments.has("json")).run(address)
        case .top:
            var top = try Top(arguments, address)
            return try top.run()
        case .topicInfo, .topicComplete, .topicFail, .topicDelete, .closeConnection, .closeSubscription:
            return try Control(command, arguments, over: address.transport).run(address)
        case .completion, .manual: preconditionFailure("they need no broker")
        }
    }

    /// What went wrong, for the person. The broker's own sentences say enough by themselves.
    static func sentence(_ error: ClientError) -> String {
        let text = error.message.isEmpty ? "no reason was given" : error.message
        return switch error.code {
        case .canceled: "canceled: \(text)"
        case .untrusted: "\(text) Name the authority that signed it with --ca FILE."
        case .setupRejected: "The broker refused the connection: \(text)"
        case .connectionError: "The broker ended the connection: \(text)"
        case .otherStatus(let name): "\(name): \(text)"
        case .otherStreamError(let code): "error 0x\(String(code, radix: 16)): \(text)"
        default: text
        }
    }
}
