package local

import "testing"

func BenchmarkScanTree(b *testing.B) {
	for b.Loop() {
		(&tree{leader: 1 << 30, mark: "none"}).members()
	}
}
