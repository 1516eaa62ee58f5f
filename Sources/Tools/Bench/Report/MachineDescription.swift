// MachineDescription: the machine on which the measurements were taken.

import EventLoop
import Glibc

extension Machine {
    static func describe(_ bench: Bench, _ options: Options) -> [(name: String, value: String)] {
        var name = utsname()
        uname(&name)
        let release = withUnsafeBytes(of: &name.release) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        let info = Machine.text(ofFile: "/proc/cpuinfo") ?? ""
        let model = info.split(separator: "\n").first { $0.hasPrefix("model name") }
        let cpu = model?.split(separator: ":").last.map { $0.drop { $0 == " " } } ?? "unknown CPU"
        let brokers = bench.brokerCPUs.map(String.init).joined(separator: ", ")
        var pinning = "brokers on CPU \(brokers), one per thread; generator on CPU \(bench.generatorCPU)"
        if bench.brokerCPUs.contains(bench.generatorCPU) {
            pinning += ": SHARED, times are unreliable"
        } else if bench.brokerCPUs.count < 2 {
            pinning += ", shared with a broker's second thread"
        }
        return [
            ("machine", "\(cpu), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) CPUs, Linux \(release)"),
            ("pinning", pinning), ("stores", "in \(options.directory)"),
            (
                "figures",
                "\(options.rounds) rounds, "
                    + (options.isQuick ? "QUICK: too short to be reliable" : "3 s of broker CPU or 30 s each")
                    + (options.lag.map { ", publishers at most \($0) messages ahead" } ?? "")
            ),
        ]
    }
}
