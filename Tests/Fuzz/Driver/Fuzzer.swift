// The fuzzers' entry point. The variable FUZZ_TARGET selects the target, one per process, because coverage and corpus
// belong to a single target.

import Glibc

private let chosen: FuzzTarget = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    if let target = FuzzTarget.all.first(where: { $0.name == name }) { return target }
    complain("FUZZ_TARGET names none of: \(FuzzTarget.all.map(\.name).joined(separator: " "))")
    exit(2)
}()

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutableRawPointer,
    _ body: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// What the linker takes for `main`: the package manager renames every program's main function after the program.
@_cdecl("fuzz_main")
public func fuzzMain(_ count: CInt, _ arguments: UnsafeMutableRawPointer) -> CInt {
    var (count, arguments) = (count, arguments)
    return withUnsafeMutablePointer(to: &arguments) { runDriver(&count, $0, testOneInput) }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    chosen.run(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}

/// A finding ends the process with a stack trace, and libFuzzer keeps the input.
func report(_ what: String) {
    complain("FOUND: \(what)")
    abort()
}

private func complain(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
}
