// SpareFiles: a few file descriptors that are kept for connections which come when there are no others left. They are
// not served, but their clients are told so.

import Glibc

struct SpareFiles {
    static let most = 16

    private var files: [Int32] = []

    /// Takes as many as are missing and can be had with numbers below `end`.
    mutating func refill(below end: Int32 = .max) {
        while files.count < SpareFiles.most {
            let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
            if file < 0 { return }
            // The kernel gives the lowest number that is free.
            if file >= end {
                close(file)
                return
            }
            files.append(file)
        }
    }

    /// Makes room for one descriptor. False when none is left.
    mutating func release() -> Bool {
        guard let file = files.popLast() else { return false }
        close(file)
        return true
    }

    mutating func closeAll() { while release() {} }
}
