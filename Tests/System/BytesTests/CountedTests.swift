// Numbers with their nouns, singular or plural, for use in sentences.

import Bytes
import Testing

@Suite struct CountedTests {
    @Test func oneIsOneAndAllOthersAreMany() {
        #expect([0, 1, 2, 1000].map { counted($0, "topic") } == ["0 topics", "1 topic", "2 topics", "1000 topics"])
        #expect(counted(UInt64(1), "publish", "publishes") == "1 publish")
        #expect(counted(3, "publish", "publishes") == "3 publishes")
    }
}
