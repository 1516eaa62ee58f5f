// SpareFiles: file descriptors that are kept in reserve, so that connections can be refused with an explanation when
// there are no others left.

import Glibc

struct SpareFiles {
    static let most = 16

    private var files: [Int32] = []

    /// Opens missing descriptors, if possible with numbers below `end`.
    mutating func refill(below end: Int32 = .max) {
        while files.count < SpareFiles.most {
            let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
            if file < 0 { return }
            // The kernel assigns the lowest free number.
            if file >= end {
                close(file)
                return
            }
            files.append(file)
        }
    }

    /// Frees one descriptor. Returns false if none is left.
    mutating func release() -> Bool {
        guard let file = files.popLast() else { return false }
        close(file)
        return true
    }

    mutating func closeAll() { while release() {} }
}
