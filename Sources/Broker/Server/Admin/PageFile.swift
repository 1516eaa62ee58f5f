// PageFile: the files of the page, which are part of the program. They fetch nothing from elsewhere, and the browser is
// told to let them fetch nothing.

import CAdminPage

/// One of them. What it points to is there as long as the program.
struct PageFile: @unchecked Sendable {
    private let type: String
    private let bytes: UnsafeBufferPointer<UInt8>

    private init(_ type: String, _ file: fb_file) {
        self.type = type
        bytes = UnsafeBufferPointer(start: file.bytes, count: file.count)
    }

    /// The file of a path of one segment.
    static func at(_ segment: String) -> PageFile? {
        let script = "text/javascript; charset=utf-8"
        switch segment {
        case "", "index.html": return PageFile("text/html; charset=utf-8", fb_page_index)
        case "style.css": return PageFile("text/css; charset=utf-8", fb_page_style)
        case "script.js": return PageFile(script, fb_page_script)
        case "kit.js": return PageFile(script, fb_page_kit)
        case "tables.js": return PageFile(script, fb_page_tables)
        case "tail.js": return PageFile(script, fb_page_tail)
        case "icon.svg", "favicon.ico": return PageFile("image/svg+xml", fb_page_icon)
        default: return nil
        }
    }

    /// - Parameter http: the origin of the broker's HTTP listener, where the page publishes and subscribes; nil when
    ///   there is none.
    func answer(http: String?) -> AdminAnswer {
        let policy =
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            + "connect-src 'self'\(http.map { " " + $0 } ?? ""); base-uri 'none'; form-action 'none'; "
            + "frame-ancestors 'none'"
        // Who may publish may not be allowed to see `info`, which has it too.
        let origin = http.map { [(name: "forebay-http", value: $0)] } ?? []
        return AdminAnswer(
            type: type, bytes: Array(bytes), headers: [(name: "content-security-policy", value: policy)] + origin)
    }
}
