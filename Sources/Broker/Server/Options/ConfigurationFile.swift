// ConfigurationFile: finds and reads the configuration file, and checks the files that it names.

import Configuration
import EventLoop
import Glibc

enum ConfigurationFile {
    /// The default file, read if it exists.
    static let standard = "/etc/forebay/forebayd.yaml"
    /// The variable that names the file, like -c.
    static let variable = "FOREBAY_CONFIG"

    /// Merges the command line, the environment and the file, which is read again each time.
    /// - Parameter former: the file that was read before, which must still exist.
    static func load(_ invocation: Invocation, former: String? = nil) throws(UsageError) -> (Loaded, path: String?) {
        let environment = Machine.environment(prefix: "FOREBAY_")
        let named = invocation.file ?? environment.first { $0.name == variable && !$0.value.isEmpty }?.value ?? former
        var text: ConfigurationText?
        if let path = named ?? (access(standard, F_OK) == 0 ? standard : nil) { text = try read(path) }
        let loaded = try Loader.load(text, environment: environment, settings: invocation.settings, checkFile: check)
        return (loaded, text?.path)
    }

    static func read(_ path: String) throws(UsageError) -> ConfigurationText {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        if fd < 0 {
            throw UsageError("cannot read the configuration file \(shown(path)): \(SystemError.text(of: errno))")
        }
        defer { close(fd) }
        var bytes: [UInt8] = []
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
        defer { piece.deallocate() }
        // Reads beyond the limit, so that the parser rejects a file that is too long.
        while bytes.count <= Document.longest {
            let count = Glibc.read(fd, piece.baseAddress!, piece.count)
            if count < 0, errno == EINTR { continue }
            if count < 0 {
                throw UsageError("cannot read the configuration file \(shown(path)): \(SystemError.text(of: errno))")
            }
            if count == 0 { break }
            bytes.append(contentsOf: piece[..<count])
        }
        return ConfigurationText(path: path, bytes: bytes)
    }

    /// Throws unless the file exists, is readable and is not a folder.
    static func check(_ path: String) throws(ValueFault) {
        let fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if fd < 0 { throw ValueFault("cannot be read: \(SystemError.text(of: errno))") }
        defer { close(fd) }
        var status = stat()
        if fstat(fd, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            throw ValueFault("is a folder: name a file")
        }
    }
}
