// Program: from the command line to an exit code.

import Client
import Glibc
import TLS

/// The exit codes of the process.
enum ExitCode {
    static let done: Int32 = 0
    static let failure: Int32 = 1
    static let usage: Int32 = 2
    static let connection: Int32 = 3

    /// The code that shells report for a program that was ended by a signal.
    static func of(signal: Int32) -> Int32 { 128 + signal }

    static func of(_ error: ClientError) -> Int32 {
        switch error.code {
        case .badURL, .badFile, .badCredentials, .invalid: return usage
        // Trying again may help, as after a lost connection.
        case .unavailable, .connectionError: return connection
        default: break
        }
        return error.endsConnection && !error.isReportedByBroker ? connection : failure
    }
}

enum Program {
    /// Opens standard descriptors that the caller closed: otherwise, the connection could get one of their numbers.
    static func openStandardDescriptors() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 { _ = open("/dev/null", O_RDWR) }
    }

    /// The command line without the program's name; nil if it is not UTF-8, which Swift would otherwise alter.
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
        reportsJSON.store(words?.contains("--json") == true, ordering: .relaxed)
        do {
            guard let words else {
                throw UsageError("The command line is not valid UTF-8; publish binary messages with --file or --stdin.")
            }
            var arguments = try Arguments(words, commands: commandTable, common: commonOptions)
            if let help = help(arguments) {
                return Self.print(help)
            }
            guard let command = arguments.command else { return ExitCode.usage }
            if let text = try OwnManual.text(command.id, arguments) {
                return Self.print(text)
            }
            switch command.id {
            case .contextAdd, .contextUse, .contextRemove, .contextList:
                return Self.print(try ContextCommand(arguments).run(command.id))
            default: break
            }
            if let context = try context(arguments) { arguments.add(context) }
            return try run(command.id, arguments, brokerAddresses(arguments))
        } catch let error as UsageError {
            reportError("usage", error.message)
            return ExitCode.usage
        } catch let error as ClientError {
            reportError(error.code.name, sentence(error))
            return ExitCode.of(error)
        } catch {
            reportError("failure", "\(error)")
            return ExitCode.failure
        }
    }

    private static func print(_ text: String) -> Int32 {
        var output = Output()
        output.buffer.append(text)
        return output.finish()
    }

    private static func help(_ arguments: Arguments) -> String? {
        if arguments.wantsVersion { return "forebay \(version)\n" }
        guard arguments.wantsHelp else { return nil }
        if let command = arguments.command { return Help.command(command) }
        return arguments.helpTopic.map { Help.group($0) } ?? Help.program()
    }

    /// The named context, or else the current one if nothing else specifies the broker.
    private static func context(_ arguments: Arguments) throws -> Context? {
        if let name = arguments.text("context") ?? environment("FOREBAY_CONTEXT") {
            if arguments.has("context"), arguments.has("url") {
                throw UsageError("--context and --url are mutually exclusive; both select the broker.")
            }
            if !arguments.has("url") { return try ContextStore().read(name) }
        }
        // Credentials for the context's broker must not be sent to another broker.
        guard !arguments.has("url"), environment("FOREBAY_URL") == nil, let store = try? ContextStore() else {
            return nil
        }
        return try store.current.map { try store.read($0) }
    }

    /// The addresses of --url, at least one, with the client's credentials.
    private static func brokerAddresses(_ arguments: Arguments) throws -> [BrokerAddress] {
        let addresses = try reachable(arguments)
        // A file may be a pipe, which can be read only once.
        let credentials = try CredentialSettings.read(arguments)
        return try addresses.map { address in
            var address = address
            address.credentials = try credentials ?? CredentialSettings.read(address)
            return address
        }
    }

    /// The addresses of --url, at least one, all with the same scheme, with the TLS options.
    static func reachable(_ arguments: Arguments) throws -> [BrokerAddress] {
        let addresses = try urls(arguments)
        let first = addresses[0]
        for other in addresses where other.transport != first.transport || (other.tls == nil) != (first.tls == nil) {
            throw UsageError("The URLs of --url have different schemes; use the same scheme for all of them.")
        }
        let tls = try tlsSettings(arguments, first)
        return addresses.map { address in
            var address = address
            address.tls = tls
            return address
        }
    }

    private static func tlsSettings(_ arguments: Arguments, _ address: BrokerAddress) throws -> TLSClientSettings? {
        let given = ["ca", "cert", "key", "insecure"].filter { arguments.has($0) }
        guard let first = given.first else { return address.tls }
        guard var tls = address.tls else {
            let scheme = address.transport == .http ? "https" : "rsockets"
            throw UsageError("--\(first) requires TLS; give the broker as --url \(scheme)://\(address).")
        }
        tls.authority = arguments.text("ca")
        tls.certificate = arguments.text("cert")
        tls.key = arguments.text("key")
        tls.verifies = !arguments.has("insecure")
        if tls.key != nil, tls.certificate == nil { throw UsageError("--key needs its certificate; give --cert too.") }
        if tls.authority != nil, !tls.verifies {
            throw UsageError("--insecure and --ca are mutually exclusive; --insecure accepts any certificate.")
        }
        return tls
    }

    private static func urls(_ arguments: Arguments) throws(ClientError) -> [BrokerAddress] {
        if let urls = arguments.text("url") { return try BrokerAddress.list(urls) }
        guard let url = environment("FOREBAY_URL") else {
            return [BrokerAddress(host: "127.0.0.1")]
        }
        do {
            return try BrokerAddress.list(url)
        } catch {
            throw ClientError(error.code, "FOREBAY_URL: \(error.message)")
        }
    }

    private static func run(_ command: Command, _ arguments: Arguments, _ addresses: [BrokerAddress]) throws -> Int32 {
        switch command {
        case .sub:
            let settings = try SubscribeSettings(arguments)
            if settings.interactive {
                try Terminal.check()
                let reconnection = try Reconnection(arguments, addresses, hasPicture: true)
                var view = try Interactive(settings, reconnection)
                return try view.run()
            }
            var subscriber = try Subscriber(settings, Reconnection(arguments, addresses))
            return try subscriber.run()
        case .pub:
            let settings = try PublishSettings(arguments)
            let reconnection = try Reconnection(arguments, addresses)
            if settings.isSingle { return try SinglePublish(settings, addresses).run() }
            var publisher = try ChannelPublisher(settings, reconnection)
            return try publisher.run()
        case .ping:
            return try Ping(arguments, addresses).run()
        case .bench:
            return try Bench.run(BenchSettings(arguments), addresses[0])
        case .topics: return try ListRequest(.topics, arguments).run(addresses)
        case .subs: return try ListRequest(.subscriptions, arguments).run(addresses)
        case .conns: return try ListRequest(.connections, arguments).run(addresses)
        case .top:
            var top = try Top(arguments, Reconnection(arguments, addresses, hasPicture: true))
            return try top.run()
        case .topicInfo, .topicComplete, .topicFail, .topicDelete, .closeConnection, .closeSubscription:
            return try Control(command, arguments).run(addresses)
        case .completion, .manual, .contextAdd, .contextUse, .contextRemove, .contextList:
            preconditionFailure("These commands need no broker.")
        }
    }

    /// What went wrong, as text for the user. The broker's own messages need no introduction.
    static func sentence(_ error: ClientError) -> String {
        let text = error.message.isEmpty ? "no reason was given" : error.message
        return switch error.code {
        case .canceled: "canceled: \(text)"
        case .untrusted: "\(text) Give the authority that signed it with --ca FILE."
        case .setupRejected: "The broker refused the connection: \(text)"
        case .connectionError: "The broker ended the connection: \(text)"
        case .otherStatus(let name): "\(name): \(text)"
        case .otherStreamError(let code): "error 0x\(String(code, radix: 16)): \(text)"
        default: text
        }
    }
}
