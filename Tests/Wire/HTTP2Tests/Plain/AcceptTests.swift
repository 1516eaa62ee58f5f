// Content negotiation: the form selected by an Accept header.

import Testing

@testable import HTTP2

struct AcceptTests {
    @Test(
        arguments: [
            (nil, .eventStream), ("", .eventStream), (" \t", .eventStream), ("*/*", .eventStream),
            ("text/event-stream", .eventStream), ("TEXT/Event-Stream", .eventStream), ("text/*", .eventStream),
            ("application/*", .jsonLines), ("application/x-ndjson", .jsonLines),
            ("text/event-stream;charset=utf-8", .eventStream),
            ("text/event-stream, application/x-ndjson", .eventStream),
            ("application/x-ndjson, text/event-stream", .eventStream), ("application/x-ndjson, */*", .jsonLines),
            ("application/x-ndjson;q=0.9, */*;q=0.8", .jsonLines), ("application/x-ndjson;q=0.5, */*", .eventStream),
            ("text/event-stream;q=0.5, application/x-ndjson", .jsonLines),
            ("text/event-stream;q=0.500, application/x-ndjson;q=0.499", .eventStream),
            ("text/event-stream;q=0, */*", .jsonLines), ("text/*;q=0, */*;q=0.001", .jsonLines),
            ("text/*;q=0, text/event-stream;q=0.1", .eventStream), ("text/html, */*;q=0.1", .eventStream),
            ("text/html;x=\"a,application/x-ndjson\", text/*", .eventStream),
            ("nonsense, application/x-ndjson", .jsonLines),
            ("application/x-ndjson ; Q=1.000", .jsonLines), (",, application/x-ndjson ,", .jsonLines),
            ("application/x-ndjson;q=1.", .jsonLines),
        ] as [(String?, StreamFormat)])
    func formsAreChosen(accept: String?, format: StreamFormat) throws {
        #expect(try StreamFormat(accept: accept) == format)
    }

    @Test(arguments: [
        "text/html", "application/json", "image/*", "*/*;q=0", "text/event-stream;q=0", "text", "*", "*/event-stream",
        "text/event-stream;q=2", "text/event-stream;q=0.1234", "text/event-stream;q=x", "text/event-stream;q=1.001",
        "text/", "/*", "text/html;x=\"a, */*\"", ",", "te*/event-stream",
    ])
    func othersAreRefused(accept: String) {
        #expect(refusal(request("GET", "/v1/topics/a/messages", [("accept", accept)]))?.status == 406)
    }

    @Test func severalLinesAreOneList() throws {
        let head = request(
            "GET", "/v1/topics/a/messages", [("accept", "text/html"), ("Accept", "application/x-ndjson")])
        guard case .subscribe(let call) = try PlainProtocol().call(head) else {
            throw Problem(.invalid, "not a stream")
        }
        #expect(call.format == .jsonLines)
    }
}
