// StoreOpening: everything between a path and a usable store. A directory that is not a store's is left as it was.

import CLMDB
import CStoreIO
import Glibc

extension Store {
    /// Opens the store, and creates it if the directory is empty or does not exist.
    /// - Parameter newEpoch: gives topics of a copy their new epochs.
    public static func open(
        _ options: StoreOptions, newEpoch: () -> UInt64 = { UInt64.random(in: 1...UInt64.max) }
    ) throws(StoreError) -> Store {
        let place = StorePlace(options)
        try place.checkDirectory()
        let exists = try place.checkFiles()
        if options.isReadOnly {
            guard exists else { throw .unusable("there is no store in \(options.directory)") }
            return try place.open(lock: -1, newEpoch)
        }
        let lock = fb_store_lock("\(options.directory)/lock")
        if lock == -EWOULDBLOCK { throw .inUse("the store in \(options.directory) is in use by another process") }
        guard lock >= 0 else { throw place.unusable("lock", -lock) }
        do throws(StoreError) {
            if try !place.checkFiles() { try place.create() }
            return try place.open(lock: lock, newEpoch)
        } catch {
            Glibc.close(lock)
            throw error
        }
    }

    /// Throws if this process could not open or create the store, except because it is in use. Changes nothing.
    public static func checkPlace(_ options: StoreOptions) throws(StoreError) {
        let place = StorePlace(options)
        guard try place.checkDirectory(creates: false), try place.checkFiles() else { return }
        try place.checkAccess()
        var reader = options
        reader.isReadOnly = true
        try Store.open(reader).close()
    }
}

/// A directory that may hold a store.
struct StorePlace {
    let options: StoreOptions
    /// Whether a copy is to be created there.
    let isCopy: Bool

    init(_ options: StoreOptions, isCopy: Bool = false) {
        self.options = options
        self.isCopy = isCopy
    }

    private var directory: String { options.directory }
    /// The name of a store that is being created. An unfinished copy must not be taken for an unfinished new store.
    private var fresh: String { options.path + (isCopy ? ".copy" : ".new") }

    func unusable(_ action: String, _ code: Int32) -> StoreError {
        .unusable("cannot \(action) the store in \(directory): \(StoreError.text(of: code))")
    }

    /// The directory is on a local file system and can be written to.
    /// - Parameter creates: creates it if it does not exist; otherwise, checks whether it can be created.
    /// - Returns: whether it exists.
    @discardableResult
    func checkDirectory(creates: Bool = true) throws(StoreError) -> Bool {
        guard options.bytes <= StoreOptions.mostBytes else {
            throw .unusable("a store has at most \(StoreOptions.mostBytes) bytes")
        }
        var status = stat()
        if stat(directory, &status) != 0 {
            guard errno == ENOENT, !options.isReadOnly else { throw unusable("open", errno) }
            guard creates else {
                try checkParent()
                return false
            }
            guard mkdir(directory, 0o700) == 0 else { throw unusable("create", errno) }
            try StorePlace.sync(directory + "/..")
        } else if status.st_mode & S_IFMT != S_IFDIR {
            throw .unusable("\(directory) is not a directory")
        }
        try checkLocal(directory)
        let needed = options.isReadOnly ? R_OK | X_OK : R_OK | W_OK | X_OK
        guard access(directory, needed) == 0 else { throw unusable("use", errno) }
        return true
    }

    private func checkLocal(_ folder: String) throws(StoreError) {
        guard let name = fb_store_remote(folder) else { return }
        throw .unusable("\(directory) is on \(String(cString: name)): the store needs a local file system")
    }

    /// The directory, which does not exist, can be created.
    private func checkParent() throws(StoreError) {
        let trimmed = directory.reversed().drop { $0 == "/" }
        let above = String(trimmed.drop { $0 != "/" }.reversed())
        let parent = above.isEmpty ? "." : above
        guard access(parent, W_OK | X_OK) == 0 else { throw unusable("create", errno) }
        try checkLocal(parent)
    }

    /// The files of the store can be written to.
    fileprivate func checkAccess() throws(StoreError) {
        for file in [options.path, options.path + "-lock", "\(directory)/lock"] {
            if access(file, R_OK | W_OK) != 0, errno != ENOENT { throw unusable("write to", errno) }
        }
    }

    /// LMDB creates its lock file if there is none. If a tool does so as root, the file belongs to the user of the
    /// store all the same.
    private func prepareReading() {
        var status = stat()
        guard stat(options.path, &status) == 0 else { return }
        let file = Glibc.open(options.path + "-lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { return }
        _ = fchown(file, status.st_uid, status.st_gid)
        close(file)
    }

    /// Returns whether there is a store; throws if there is something else.
    func checkFiles() throws(StoreError) -> Bool {
        let file = Glibc.open(options.path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            guard errno == ENOENT else { throw unusable("open", errno) }
            try checkEmpty()
            return false
        }
        defer { close(file) }
        // LMDB's own test, before LMDB may write anything: magic number and version after the page's header.
        var words: [UInt32] = [0, 0]
        guard pread(file, &words, 8, 16) == 8, words == [0xbeef_c0de, 1] else {
            throw .foreign("\(options.path) is not a Forebay store")
        }
        return true
    }

    private func checkEmpty() throws(StoreError) {
        guard let list = opendir(directory) else { throw unusable("read", errno) }
        defer { closedir(list) }
        while let entry = readdir(list) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasPrefix("forebay.store.copy"), !isCopy {
                throw .foreign("\(directory) holds an unfinished copy of a store; copy it again, or remove its files")
            }
            let unfinished = ["forebay.store.new", "forebay.store.copy"]
            let ours = ["lock", "forebay.store-lock"].contains(name) || unfinished.contains { name.hasPrefix($0) }
            if !ours && ![".", "..", "lost+found"].contains(name) {
                throw .foreign("\(directory) is not empty and holds no Forebay store: it has a file \(name)")
            }
        }
    }

    /// Creates the store under another name, so that an interrupted creation leaves no file that looks like a store.
    /// - Parameter fill: adds rows to a copy.
    func create(
        _ state: StoreState = StoreState(isClean: true, isCopy: false, generation: 0),
        fill: (OpaquePointer) throws(Failure) -> Void = { _ in }
    ) throws(StoreError) {
        let lock = fresh + "-lock"
        unlink(fresh)
        unlink(lock)
        do throws(Failure) {
            let environment = try StorePlace.environment(fresh, options.bytes + options.reserve, isReadOnly: false)
            do throws(Failure) {
                try StorePlace.write(environment, isSynced: false) { transaction throws(Failure) in
                    for database in Database.allCases {
                        try StorePlace.open(database, transaction, create: true)
                    }
                }
                try fill(environment)
                try StorePlace.write(environment) { transaction throws(Failure) in
                    try state.write(transaction)
                    try StoreState.writeFormat(transaction)
                }
            } catch {
                if !error.isFault { fb_store_close(environment) }
                throw error
            }
            fb_store_close(environment)
        } catch {
            unlink(fresh)
            unlink(lock)
            if error.isFault {
                throw .unusable("cannot create the store in \(directory): the disk may be full, or it is faulty")
            }
            throw unusable("create", error.code)
        }
        unlink(lock)
        guard rename(fresh, options.path) == 0 else { throw unusable("create", errno) }
        try StorePlace.sync(directory)
    }

    private var fileSize: UInt64 {
        var status = stat()
        return stat(options.path, &status) == 0 ? UInt64(status.st_size) : 0
    }

    /// Opens the environment, checks its format, and notes that it is in use.
    func open(lock: Int32, _ newEpoch: () -> UInt64) throws(StoreError) -> Store {
        let environment: OpaquePointer
        do throws(Failure) {
            // A read-only tool takes the map's size from the file. If the limit has been lowered, the map stays large
            // enough for retention.
            let size = options.isReadOnly ? 0 : max(options.bytes, fileSize) + options.reserve
            if options.isReadOnly {
                prepareReading()
            } else {
                let code = fb_store_prepare(options.path + "-lock")
                if code != EOPNOTSUPP && code != ENOSYS { try Failure.check(code) }
            }
            environment = try StorePlace.environment(options.path, size, isReadOnly: options.isReadOnly)
        } catch {
            if error.code == MDB_INVALID { throw .foreign("\(options.path) is not a Forebay store") }
            throw unusable("open", error.code)
        }
        let state: StoreState
        do throws(StoreError) {
            state = try check(environment)
        } catch {
            fb_store_close(environment)
            throw error
        }
        do throws(Failure) {
            return try start(environment, lock, state, newEpoch)
        } catch {
            if !error.isFault { fb_store_close(environment) }
            throw unusable("write to", error.code)
        }
    }

    private func check(_ environment: OpaquePointer) throws(StoreError) -> StoreState {
        var pointer: OpaquePointer?
        var code = fb_store_begin(environment, Int32(FB_STORE_READ), &pointer)
        guard code == 0, let pointer else { throw unusable("read", code) }
        let transaction = Transaction(pointer: pointer)
        do throws(Failure) {
            try StorePlace.open(.meta, transaction, create: false)
            let format = try transaction.get(.meta, StoreState.formatKey)?.bytes() ?? []
            guard format.count == StoreState.marker.count + 4, format.starts(with: StoreState.marker) else {
                throw Failure(MDB_NOTFOUND)
            }
            let version = format.suffix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            guard version <= StoreState.version else { throw Failure(MDB_VERSION_MISMATCH) }
            for database in Database.allCases where database != .meta {
                try StorePlace.open(database, transaction, create: false)
            }
            let state = try StoreState.read(transaction)
            // A commit, so that the numbers of the databases stay valid.
            code = fb_store_commit(pointer)
            try Failure.check(code)
            return state
        } catch {
            if code == 0 { _ = fb_store_abort(pointer) }
            switch error.code {
            case MDB_NOTFOUND, MDB_INCOMPATIBLE: throw .foreign("\(options.path) is not a Forebay store")
            case MDB_VERSION_MISMATCH: throw .newer("\(options.path) was written by a newer version of Forebay")
            default: throw unusable("read", error.code)
            }
        }
    }

    /// Notes that the store is in use.
    private func start(
        _ environment: OpaquePointer, _ lock: Int32, _ state: StoreState, _ newEpoch: () -> UInt64
    ) throws(Failure) -> Store {
        let isNew = state.isCopy && !options.isReadOnly
        var next = state
        if !options.isReadOnly {
            next = StoreState(
                isClean: false, isCopy: false, generation: state.generation + (state.isClean ? 0 : 1))
            // Always a synchronous commit: it makes the former process's last commit durable before anyone reads it.
            // That process may have died between writing the commit and the end of its sync.
            try StorePlace.write(environment) { transaction throws(Failure) in
                try next.write(transaction)
                if isNew { try StorePlace.renew(transaction, next.generation, newEpoch) }
            }
        }
        return try Store(
            options, environment: environment, lock: lock, state: next,
            startedAfterCrash: !state.isClean && !options.isReadOnly, isCopy: isNew)
    }

    /// Gives every topic of a copy a new epoch.
    private static func renew(
        _ transaction: Transaction, _ generation: UInt64, _ newEpoch: () -> UInt64
    ) throws(Failure) {
        var rows: [TopicRow] = []
        try Store.scanTopics(transaction) { row, extent, _ throws(Failure) in
            var row = row
            row.renew(epoch: newEpoch(), end: max(extent.end, 1))
            row.generation = generation
            rows.append(row)
        }
        for row in rows { try transaction.put(.topics, row.record.id.value, row.encoded) }
    }

    static func environment(_ path: String, _ size: UInt64, isReadOnly: Bool) throws(Failure) -> OpaquePointer {
        var environment: OpaquePointer?
        try Failure.check(fb_store_open(path, Int(size), isReadOnly ? 1 : 0, &environment))
        return environment!
    }

    static func open(_ database: Database, _ transaction: Transaction, create: Bool) throws(Failure) {
        var number: UInt32 = 0
        try Failure.check(fb_store_database(transaction.pointer, database.name, create ? 1 : 0, &number))
        precondition(number == database.rawValue)
    }

    /// A write transaction outside the writer's thread. After a fault it stays open, and so must the environment.
    static func write(
        _ environment: OpaquePointer, isSynced: Bool = true, _ body: (Transaction) throws(Failure) -> Void
    ) throws(Failure) {
        var pointer: OpaquePointer?
        let mode = isSynced ? FB_STORE_WRITE : FB_STORE_WRITE_UNSYNCED
        try Failure.check(fb_store_begin(environment, Int32(mode), &pointer))
        do throws(Failure) {
            try body(Transaction(pointer: pointer!))
        } catch {
            if !error.isFault { _ = fb_store_abort(pointer) }
            throw error
        }
        try Failure.check(fb_store_commit(pointer))
    }

    /// Makes the names in a directory durable.
    static func sync(_ directory: String) throws(StoreError) {
        let file = Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard file >= 0 else { throw .unusable("cannot open \(directory): \(StoreError.text(of: errno))") }
        defer { close(file) }
        guard fsync(file) == 0 else {
            throw .unusable("cannot sync \(directory): \(StoreError.text(of: errno))")
        }
    }
}
