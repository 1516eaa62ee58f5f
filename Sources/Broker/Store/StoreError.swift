// StoreError: why the store cannot be opened, or what became of a commit, as a sentence for the user.

import CLMDB
import CStoreIO
import Glibc

/// A failure of the store.
public enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another process has the directory open.
    case inUse(String)
    /// The directory holds files that are not this store's. They were not touched.
    case foreign(String)
    /// The store was written by a newer version. It was not touched.
    case newer(String)
    /// The directory cannot be used: permissions, a network file system, a damaged file.
    case unusable(String)
    /// There is no room, in the store's limit or on the disk. Nothing was written.
    case full
    /// The commit failed for another reason. Nothing was written.
    case aborted(String)
    /// A write or sync failed. What was written is known only after the store has been opened again; until then, every
    /// commit fails with this error.
    case unknown(String)

    public var description: String {
        switch self {
        case .inUse(let text), .foreign(let text), .newer(let text), .unusable(let text): text
        case .full: "store: full"
        case .aborted(let reason): "store: \(reason)"
        case .unknown(let reason): "store: outcome unknown: \(reason)"
        }
    }

    /// The text for a result of CStoreIO.
    static func text(of code: Int32) -> String {
        switch code {
        case Int32(FB_STORE_FAULT): "the data file cannot be read"
        case Int32(FB_STORE_BROKEN): "the data file is damaged"
        default: String(cString: mdb_strerror(code))
        }
    }
}
