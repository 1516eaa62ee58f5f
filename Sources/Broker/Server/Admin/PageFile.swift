// PageFile: the files of the admin page, embedded in the program. They load nothing from other origins, which the
// content security policy also forbids.

import CAdminPage

/// A file of the page. Its bytes are static.
struct PageFile: @unchecked Sendable {
    private let type: String
    private let bytes: UnsafeBufferPointer<UInt8>

    private init(_ type: String, _ file: fb_file) {
        self.type = type
        bytes = UnsafeBufferPointer(start: file.bytes, count: file.count)
    }

    /// The file for a path of one segment.
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

    /// - Parameter http: the origin of the broker's HTTP listener, for publishing and subscribing; nil if there is
    ///   none.
    func answer(http: String?) -> AdminAnswer {
        let policy =
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            + "connect-src 'self'\(http.map { " " + $0 } ?? ""); base-uri 'none'; form-action 'none'; "
            + "frame-ancestors 'none'"
        // `info` has the origin too, but a user who may publish is not necessarily permitted to see `info`.
        let origin = http.map { [(name: "forebay-http", value: $0)] } ?? []
        return AdminAnswer(
            type: type, bytes: Array(bytes), headers: [(name: "content-security-policy", value: policy)] + origin)
    }
}
