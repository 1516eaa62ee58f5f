// Budget: the command line.

import Glibc

enum Budget {
    static func run(_ words: [String]) -> Int32 {
        if words.isEmpty {
            for scenario in Catalogue.scenarios {
                print(scenario.name, scenario.unit.rawValue, scenario.title, separator: "\t")
            }
            return 0
        }
        if words.first == "costs" { return costs(Array(words.dropFirst())) }
        guard words.count == 1, let scenario = Catalogue.scenarios.first(where: { $0.name == words[0] }) else {
            return complain(
                "no scenario has the name '\(words.joined(separator: " "))'; without a name they are listed")
        }
        do throws(Fault) {
            let count = try Run(scenario).count()
            print(count.units, count.allocations, separator: "\t")
            return 0
        } catch {
            return complain("\(scenario.name): \(error.message)")
        }
    }

    /// `Budget costs` lists crowds and operations, `Budget costs CROWD SIZE` counts.
    private static func costs(_ words: [String]) -> Int32 {
        if words.isEmpty {
            for crowd in Crowd.allCases { print("crowd", crowd.rawValue, crowd.title, separator: "\t") }
            for operation in Operation.allCases {
                print("operation", operation.rawValue, operation.title, separator: "\t")
            }
            return 0
        }
        guard words.count == 2, let crowd = Crowd(rawValue: words[0]), let size = Int(words[1]), size > 0 else {
            return complain("costs are counted beside a crowd and its size, as in 'costs topics 1000'")
        }
        do throws(Fault) {
            for (operation, units) in try CostRun(crowd, size).count() {
                print(operation.rawValue, units, separator: "\t")
            }
            return 0
        } catch {
            return complain("\(crowd.rawValue) \(size): \(error.message)")
        }
    }

    private static func complain(_ text: String) -> Int32 {
        let line = "Budget: \(text)\n"
        _ = Array(line.utf8).withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
        return 1
    }
}

/// The scenario did not proceed as expected, so its figures are meaningless.
struct Fault: Error {
    var message: String
}
