// How the limit on open files is divided.

import Testing

@testable import Server

@Suite struct FileSharesTests {
    @Test(arguments: [
        (300, 75, 2, 75, 18, 56), (100, 25, 1, 25, 16, 37), (1 << 20, 10_000, 2, 256, 1024, 1024),
        (20_000, 10_000, 64, 256, 1024, 154),
    ])
    func sharesFollowTheLimit(
        files: Int, connections: Int, threads: Int, admin: Int, refused: Int, lingering: Int
    ) {
        let shares = FileShares(of: files, connections: connections, threads: threads)
        #expect(shares.admin == Int32(files - admin)..<Int32(files))
        #expect(shares.refused == refused && shares.lingering == lingering)
    }

    @Test func spareFilesLeaveTheSharesOfOthersAlone() {
        var spare = SpareFiles()
        defer { spare.closeAll() }
        spare.refill(below: 0)
        let hadOne = spare.release()
        spare.refill()
        let hasOne = spare.release()
        #expect(!hadOne && hasOne)
    }
}
