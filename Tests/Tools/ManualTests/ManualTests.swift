// Pages and completions of a small fictitious program. Tests/EndToEnd/cli/test_cli_manual.py tests forebay's own with
// man and the shells.

import Testing

@testable import Manual

@Suite struct ManualTests {
    private let manual = Manual(
        "prog", section: 1, version: "1.2", title: "what it is", synopsis: ["prog COMMAND [OPTION…]", "prog -h"],
        description: ["One.", ".two 'quoted' back\\slash --loud."],
        commands: [
            ManualCommand(
                ["go"], operands: [ManualOperand("TOPIC", values: .listed("topics"))], summary: "goes",
                options: [ManualOption("count", short: "n", value: "N", help: "how often: it's 5 [at most]")],
                examples: [ManualExample("prog go x\nprog go y", "twice")]),
            ManualCommand(["thing", "make"], summary: "make one"),
            ManualCommand(
                ["thing", "mark"], operands: [ManualOperand("[FILE]", values: .file)], summary: "mark one",
                options: [
                    ManualOption("how", value: "HOW", help: "in which way", values: .words(["well", "badly"]))
                ]),
        ],
        options: [ManualOption("help", short: "h", help: "explain")],
        sections: [ManualSection("FILES", ["Some."], items: [("/etc/x", "the file")])],
        examples: [ManualExample("prog go")], seeAlso: ["other(5)", "third(1)"])

    @Test func aPageHasEverything() {
        let page = manual.page()
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines.contains(#".TH PROG 1 "" "Forebay 1.2" "Forebay""#))
        let headings = lines.filter { $0.hasPrefix(".SH") || $0.hasPrefix(".SS") }
        #expect(
            headings == [
                #".SH "NAME""#, #".SH "SYNOPSIS""#, #".SH "DESCRIPTION""#, #".SH "COMMANDS""#, #".SS "prog go""#,
                #".SS "prog thing make""#, #".SS "prog thing mark""#, #".SH "OPTIONS OF EVERY COMMAND""#,
                #".SH "FILES""#, #".SH "EXAMPLES""#, #".SH "SEE ALSO""#,
            ])
        #expect(lines.contains(#"prog \- what it is"#))
        #expect(lines.contains(#"\fBprog\fR thing mark [FILE] [OPTION…]"#))
        #expect(lines.contains(#"\fB\-n\fR, \fB\-\-count\fR \fIN\fR"#))
        #expect(lines.contains(#"\fBother\fR(5),"#))
        #expect(lines.contains("prog go y"))
    }

    @Test func whatMeansSomethingToRoffIsEscaped() {
        #expect(manual.page().contains(#"\&.two \(aqquoted\(aq back\eslash \fB\-\-loud\fR."#))
        #expect(!manual.page().contains("\n\n"))
    }

    @Test(arguments: [("", ""), ("ends. Twice", "Ends. Twice."), ("a.", "A."), ("é", "É."), ("so…", "So…")])
    func phrasesBecomeSentences(_ phrase: String, _ sentence: String) {
        var manual = manual
        manual.commands = []
        manual.options = [ManualOption("x", help: phrase)]
        #expect(manual.page().contains("\\fB\\-\\-x\\fR\n\(sentence)\n"))
    }

    /// How the shells handle these words is tested elsewhere; this test only checks that nothing is left out.
    @Test(arguments: Shell.allCases)
    func everyWordIsInTheCompletion(_ shell: Shell) {
        let script = manual.completion(for: shell)
        for word in ["go", "thing", "make", "mark", "count", "help", "how", "well badly"] {
            #expect(script.contains(word), "\(shell): \(word)")
        }
        #expect(script.contains("topics") && script.contains("command prog"))
    }

    @Test(arguments: Shell.allCases)
    func aProgramWithoutCommandsHasACompletion(_ shell: Shell) {
        var manual = manual
        manual.commands = []
        manual.options = [ManualOption("config", short: "c", value: "FILE", help: "read it", values: .file)]
        let script = manual.completion(for: shell)
        #expect(script.contains("config") && !script.contains("forebay topics"))
    }
}
