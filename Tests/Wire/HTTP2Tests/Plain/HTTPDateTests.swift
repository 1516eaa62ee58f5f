// Dates of responses.

import HTTP2
import Testing

@Suite struct HTTPDateTests {
    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        // The example of RFC 9110.
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (-5, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ])
    func `A moment`(seconds: Int64, text: String) {
        #expect(HTTPDate.text(seconds * 1_000_000_000) == text)
    }

    @Test func `The last moment there is`() {
        #expect(HTTPDate.text(.max) == "Fri, 11 Apr 2262 23:47:16 GMT")
    }
}
