// PageFile: the files of the page, which are part of the program. They fetch nothing from elsewhere, and the browser is
// told to let them fetch nothing.

import CAdminPage

enum PageFile: Sendable {
    case index, style, script, icon

    static func at(_ segment: String) -> PageFile? {
        switch segment {
        case "", "index.html": .index
        case "style.css": .style
        case "script.js": .script
        case "icon.svg", "favicon.ico": .icon
        default: nil
        }
    }

    private var type: String {
        switch self {
        case .index: "text/html; charset=utf-8"
        case .style: "text/css; charset=utf-8"
        case .script: "text/javascript; charset=utf-8"
        case .icon: "image/svg+xml"
        }
    }

    private var file: fb_file {
        switch self {
        case .index: fb_page_index
        case .style: fb_page_style
        case .script: fb_page_script
        case .icon: fb_page_icon
        }
    }

    /// - Parameter http: the origin of the broker's HTTP listener, where the page publishes and subscribes; nil when
    ///   there is none.
    func answer(http: String?) -> AdminAnswer {
        let policy =
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            + "connect-src 'self'\(http.map { " " + $0 } ?? ""); base-uri 'none'; form-action 'none'; "
            + "frame-ancestors 'none'"
        return AdminAnswer(
            type: type, bytes: Array(UnsafeBufferPointer(start: file.bytes, count: file.count)),
            headers: [("content-security-policy", policy)])
    }
}
