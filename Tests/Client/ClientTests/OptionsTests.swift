// The command line: what is accepted, and the message for everything else.

import Testing

@testable import Client
@testable import forebay

@Suite struct OptionsTests {
    private func parse(_ words: String...) throws -> Arguments {
        try Arguments(words, commands: commandTable, common: commonOptions)
    }

    private func refusal(_ words: String...) -> String {
        do {
            let arguments = try Arguments(words, commands: commandTable, common: commonOptions)
            switch arguments.command?.id {
            case .sub: _ = try SubscribeSettings(arguments)
            case .pub: _ = try PublishSettings(arguments)
            case .bench: _ = try BenchSettings(arguments)
            case .topicFail: _ = try Control(.topicFail, arguments)
            default: break
            }
            return "taken"
        } catch {
            return error.message
        }
    }

    @Test func everyOptionOfTheTableIsTaken() throws {
        for command in commandTable {
            for option in command.options + commonOptions where !["help", "version"].contains(option.name) {
                let value: String? =
                    switch option.kind {
                    case .flag: nil
                    case .number(let range): "\(range.upperBound)"
                    case .numberOr(let words, _): words[0]
                    case .decimal(let range): "\(Int(range.upperBound))"
                    case .choice(let words): words[0]
                    case .text, .texts: "some text"
                    }
                let operands = command.operands.map { _ in "operand" }
                for words in value.map({ [["--" + option.name, $0], ["--\(option.name)=\($0)"]] }) ?? [
                    ["--" + option.name]
                ] {
                    let after = try Arguments(
                        command.path + operands + words, commands: commandTable, common: commonOptions)
                    let taken = option.kind == .texts ? after.texts(option.name).last : after.text(option.name)
                    #expect(after.has(option.name) && taken == value ?? "")
                    #expect(after.operands == operands && after.command?.id == command.id)
                    let before = try Arguments(
                        command.path + words + operands, commands: commandTable, common: commonOptions)
                    #expect(before.operands == operands)
                }
            }
        }
    }

    @Test func helpTellsEveryOption() {
        let program = Help.program()
        for command in commandTable {
            #expect(program.contains((command.path + command.operands).joined(separator: " ")))
            let help = Help.command(command)
            for option in command.options + commonOptions { #expect(help.contains("--" + option.name)) }
            for example in command.examples { #expect(help.contains(example.line)) }
            #expect(help.split(separator: "\n").allSatisfy { $0.count <= 110 }, "\(command.path): too wide")
        }
    }

    @Test func examplesOfTheHelpAreRight() throws {
        for example in commandTable.flatMap(\.examples) {
            let command = example.line.split(separator: "|").map { $0.drop { $0 == " " } }.first {
                $0.hasPrefix("forebay ")
            }
            var words: [String] = []
            for (index, part) in (command ?? "").split(separator: "'", omittingEmptySubsequences: false).enumerated() {
                if index % 2 == 1 {
                    words.append(String(part))
                } else {
                    words += part.split(separator: " ").map(String.init)
                }
            }
            #expect(throws: Never.self) {
                let arguments = try Arguments(Array(words.dropFirst()), commands: commandTable, common: commonOptions)
                if arguments.command?.id == .sub { _ = try SubscribeSettings(arguments) }
                if arguments.command?.id == .pub { _ = try PublishSettings(arguments) }
                if arguments.command?.id == .bench { _ = try BenchSettings(arguments) }
            }
        }
    }

    @Test func valuesAreChecked() {
        #expect(refusal("sub", "t", "--buffer", "x") == "--buffer takes a number from 1 to 2147483647, not 'x'.")
        for value in ["0", "-1", "2147483648", "", " 1", "1 ", "0x10", "1e3", "99999999999999999999999", "+1"] {
            #expect(
                refusal("sub", "t", "--request=\(value)")
                    == "--request takes a number from 1 to 2147483647, not '\(value)'.")
        }
        #expect(
            refusal("sub", "t", "--replay", "al") == "--replay takes all or a number from 0 to 2147483647, not 'al'.")
        #expect(refusal("sub", "t", "--format", "xml") == "--format takes text, json or raw, not 'xml'.")
        #expect(refusal("pub", "t", "m", "--rate", "0").hasPrefix("--rate takes a number from 0.001 to 10000000"))
        #expect(refusal("pub", "t", "m", "--rate", "nan").hasPrefix("--rate takes"))
        #expect(refusal("sub", "t", "--from", "18446744073709551615") == "taken")
        #expect(refusal("sub", "t", "--from", "18446744073709551616").hasPrefix("--from takes"))
        #expect(refusal("sub", "t", "--replay", "0") == "taken")
    }

    @Test func mistakesGetASentence() {
        #expect(
            refusal().hasPrefix(
                "The command is missing; use sub, pub, topics, topic, subs, conns, close, top, ping, bench, "
                    + "context, completion or manual."))
        #expect(
            refusal("sup", "t")
                == "There is no command 'sup' (did you mean 'sub'?). The commands are sub, pub, topics, topic, subs, "
                + "conns, close, top, ping, bench, context, completion and manual."
        )
        #expect(refusal("sub").hasPrefix("'forebay sub' needs TOPIC"))
        #expect(refusal("sub", "a", "b").contains("takes no further operand 'b'"))
        #expect(refusal("sub", "t", "--meta=1") == "--meta takes no value.")
        #expect(refusal("sub", "t", "--count") == "--count needs a value: a number from 1 to 9223372036854775807.")
        #expect(refusal("sub", "t", "--buffer", "1", "--buffer", "2") == "--buffer is given twice, as '1' and as '2'.")
        #expect(
            refusal("sub", "t", "--bufer", "1").hasPrefix(
                "There is no option '--bufer' (did you mean '--buffer'?). The options are"))
        #expect(refusal("sub", "t", "-x").hasPrefix("There is no option '-x'. The options are"))
        #expect(
            refusal("topic")
                == "The subcommand is missing; after 'forebay topic', use info, complete, fail or delete.")
        #expect(refusal("topic", "inf", "x").hasPrefix("There is no command 'topic inf' (did you mean 'info'?)."))
    }

    @Test func optionsThatExcludeEachOther() {
        #expect(
            refusal("sub", "t", "--from", "3", "--replay", "3").hasPrefix("--from and --replay are mutually exclusive"))
        #expect(
            refusal("sub", "t", "--since", "-5m", "--replay", "3").hasPrefix(
                "--replay and --since are mutually exclusive"))
        #expect(
            refusal("sub", "t", "--since", "5m").hasPrefix(
                "--since=5m is neither a time such as 2026-11-22T09:30:00Z nor a duration such as -5m"))
        #expect(refusal("sub", "t", "--since").hasPrefix("--since needs a value"))
        #expect(refusal("sub", "t", "--epoch", "3") == "--epoch needs --from.")
        #expect(
            refusal("sub", "$SYS.subscriptions") == "$SYS.subscriptions is a list, not a topic; use 'forebay subs'.")
        #expect(refusal("sub", "t", "--once").hasPrefix("--once needs --request"))
        #expect(
            refusal("sub", "t", "--json", "--format", "raw").hasPrefix("--json and --format raw are mutually exclusive")
        )
        #expect(refusal("sub", "t", "--json", "--format", "json") == "taken")
        #expect(refusal("sub", "t", "--interactive", "--count", "3") == "--count cannot be used with --interactive.")
        #expect(refusal("sub", "t", "--meta", "--format", "raw").hasPrefix("--meta cannot be used with --format raw"))
        #expect(refusal("pub", "t", "m", "--stdin").hasPrefix("MESSAGE and --stdin are mutually exclusive"))
        #expect(refusal("pub", "t", "--stdin", "--size", "3").hasPrefix("--stdin and --size are mutually exclusive"))
        #expect(refusal("pub", "t") == "There is nothing to publish; give a MESSAGE, --file, --stdin or --size.")
        #expect(refusal("pub", "$SYS.stats", "m").contains("the broker's own"))
        #expect(refusal("sub", "").hasPrefix("The topic name is empty"))
        #expect(refusal("sub", String(repeating: "a", count: 256)).contains("has 256 bytes; at most 255"))
        #expect(
            refusal("bench", "--count", "3", "--seconds", "3").hasPrefix("--count and --seconds are mutually exclusive")
        )
        #expect(refusal("bench", "--rate", "3", "--size", "15").hasPrefix("--rate needs a --size of 16 or more"))
        #expect(refusal("bench", "$SYS.stats").contains("the broker's own"))
    }

    @Test func commonOptionsMayStandFirst() throws {
        let arguments = try parse("--url", "rsocket://x", "--json", "sub", "t")
        #expect(arguments.text("url") == "rsocket://x" && arguments.has("json") && arguments.operands == ["t"])
        #expect(try parse("--url=x", "-h").wantsHelp)
        #expect(try parse("-V").wantsVersion)
    }

    @Test func helpInEveryPlace() throws {
        #expect(try parse("-h").wantsHelp)
        #expect(try parse("sub", "-h").command?.id == .sub)
        #expect(try parse("help", "sub").command?.id == .sub)
        #expect(try parse("topic", "-h").helpTopic == "topic")
        #expect(try parse("topic", "info", "--help").command?.id == .topicInfo)
        #expect(try parse("help").wantsHelp)
    }

    @Test func wordsAfterTwoDashesAreOperands() throws {
        #expect(try parse("pub", "t", "--", "--stdin").operands == ["t", "--stdin"])
        #expect(try parse("pub", "t", "-").operands == ["t", "-"])
        #expect(try parse("pub", "t", "").operands == ["t", ""])
    }

    @Test func routeOfASubscription() throws {
        let settings = try SubscribeSettings(
            parse("sub", "a.b", "--meta", "--replay", "all", "--buffer", "7", "--overflow", "latest"))
        #expect(settings.options.route(to: settings.topic).tags == ["a.b?replay=all&buffer=7&overflow=latest&meta=on"])
        let resumed = try SubscribeSettings(parse("sub", "a", "--from", "5", "--epoch", "9", "--gap", "fail"))
        #expect(resumed.options.route(to: "a").tags == ["a?from=5&epoch=9&gap=fail"])
        for words in [["--since", "-5m"], ["--since=-5m"]] {
            let arguments = try Arguments(["sub", "a"] + words, commands: commandTable, common: commonOptions)
            #expect(try SubscribeSettings(arguments).options.route(to: "a").tags == ["a?since=-5m"])
        }
        let timed = try SubscribeSettings(parse("sub", "--since", "2026-11-22T10:30:00.5+01:00", "a"))
        #expect(timed.options.start == .since(.at(1_795_339_800_500_000_000)))
        #expect(timed.options.route(to: "a").tags == ["a?since=2026-11-22T09%3A30%3A00.5Z"])
        #expect(try SubscribeSettings(parse("sub", "a", "-i")).options.route(to: "a").tags == ["a?meta=on"])
    }

    @Test func routeOfAPattern() throws {
        let settings = try SubscribeSettings(parse("sub", "orders.*.>", "--replay", "3", "--buffer", "7"))
        #expect(settings.isPattern)
        #expect(settings.options.route(to: settings.topic).tags == ["orders.%2A.%3E?replay=3&buffer=7"])
        #expect(try SubscribeSettings(parse("sub", "$SYS.>")).isPattern)
        #expect(try !SubscribeSettings(parse("sub", "$SYS.stats")).isPattern)
        #expect(refusal("sub", "a.>", "--from", "3").hasPrefix("--from cannot be used with a pattern"))
        #expect(refusal("sub", "a.>", "--gap", "fail").hasPrefix("--gap cannot be used with a pattern"))
        #expect(refusal("sub", "a/#").contains("and > for the rest, as in orders.>"))
        #expect(refusal("sub", "a.>", "--opening").hasPrefix("--opening cannot be used with a pattern"))
        #expect(
            refusal("sub", "a.>", "--overflow", "block").hasPrefix("--overflow block cannot be used with a pattern"))
        #expect(refusal("sub", "a.>", "-i").hasPrefix("--interactive cannot be used with a pattern"))
        #expect(refusal("sub", "*" + String(repeating: "a", count: 255)).hasPrefix("The pattern is too long"))
        #expect(refusal("pub", "a.>", "x").contains("only in patterns to subscribe to"))
    }

    @Test func whatGoesWithoutAChannel() throws {
        #expect(try PublishSettings(parse("pub", "t", "m")).isSingle)
        #expect(try PublishSettings(parse("pub", "t", "m", "--ack")).isSingle)
        #expect(try !PublishSettings(parse("pub", "t", "m", "--count", "2")).isSingle)
        #expect(try !PublishSettings(parse("pub", "t", "m", "--complete")).isSingle)
        #expect(try PublishSettings(parse("pub", "t", "--file", "x")).isSingle)
        #expect(try PublishSettings(parse("pub", "t", "m", "--rate", "2")).count == 1)
        #expect(try PublishSettings(parse("pub", "t", "--size", "9")).count == 1)
        #expect(try PublishSettings(parse("pub", "t", "m", "--forever")).count == nil)
        #expect(try PublishSettings(parse("pub", "t", "--size", "9", "--forever")).count == nil)
        #expect(try PublishSettings(parse("pub", "t", "--stdin")).count == nil)
        #expect(
            refusal("pub", "t", "m", "--forever", "--count", "2").hasPrefix(
                "--forever and --count are mutually exclusive"))
        #expect(refusal("pub", "t", "--stdin", "--forever").hasPrefix("--forever cannot be used with --stdin"))
    }
}
